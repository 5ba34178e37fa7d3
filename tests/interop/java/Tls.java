import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/**
 * Certificates made by the JDK's keytool, and the file of settings that server, brokers, clients
 * and mqadmin share: each shows a certificate, and trusts the other's.
 */
final class Tls {
    private static final String PASSWORD = "changeit";

    private final Path folder;
    private final Path settings;

    private Tls(Path folder) {
        this.folder = folder;
        this.settings = folder.resolve("tls.properties");
    }

    /** Makes two self-signed pairs in a folder, and the settings that name them. */
    static Tls make(Path folder) throws Exception {
        Files.createDirectories(folder);
        Tls tls = new Tls(folder);
        tls.pair("server");
        tls.pair("client");
        Files.write(tls.settings, List.of(
            "tls.test.mode.enable=false",
            "tls.server.need.client.auth=require",
            "tls.server.authClient=true",
            "tls.server.certPath=" + folder.resolve("server.pem"),
            "tls.server.keyPath=" + folder.resolve("server.key"),
            "tls.server.trustCertPath=" + folder.resolve("client.pem"),
            "tls.client.authServer=true",
            "tls.client.certPath=" + folder.resolve("client.pem"),
            "tls.client.keyPath=" + folder.resolve("client.key"),
            "tls.client.trustCertPath=" + folder.resolve("server.pem")));
        return tls;
    }

    private void pair(String name) throws Exception {
        Path store = folder.resolve(name + ".p12");
        String tool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Path log = folder.resolve("log");
        int exit = new ProcessBuilder(tool, "-genkeypair", "-alias", name, "-keyalg", "RSA",
            "-keysize", "2048", "-dname", "CN=" + name, "-validity", "9", "-storetype", "PKCS12",
            "-keystore", store.toString(), "-storepass", PASSWORD)
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()))
            .start().waitFor();
        Expect.equal("the exit code of keytool, see " + log, 0, exit);
        KeyStore keys = KeyStore.getInstance(store.toFile(), PASSWORD.toCharArray());
        write(name + ".pem", "CERTIFICATE", keys.getCertificate(name).getEncoded());
        write(name + ".key", "PRIVATE KEY",
            keys.getKey(name, PASSWORD.toCharArray()).getEncoded());
    }

    private void write(String file, String label, byte[] content) throws IOException {
        String lines = Base64.getMimeEncoder(64, "\n".getBytes(StandardCharsets.US_ASCII))
            .encodeToString(content);
        Files.writeString(folder.resolve(file), "-----BEGIN " + label + "-----\n" + lines
            + "\n-----END " + label + "-----\n");
    }

    /** Settings, as {@code key=value}, of a program that serves TLS alone. */
    List<String> ofServer() {
        return List.of("tls.server.mode=enforcing", "tls.config.file=" + settings);
    }

    /** Options of a JVM whose connections are all to be TLS. */
    String[] ofClient() {
        return new String[] {"-Dtls.enable=true", "-Dtls.config.file=" + settings};
    }

    /** Options of a broker's JVM: it serves TLS alone, and is a client of the name server. */
    String[] ofBroker() {
        List<String> options = new ArrayList<>(List.of(ofClient()));
        options.add("-Dtls.server.mode=enforcing");
        return options.toArray(new String[0]);
    }
}
