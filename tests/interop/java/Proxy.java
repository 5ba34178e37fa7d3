import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The proxy 5.5.0: gRPC towards clients, remoting towards brokers and the name server. */
final class Proxy {
    private static final int START_SECONDS = 120;

    private final Setup setup;
    private final int port;
    private Program program;

    Proxy(Setup setup) {
        this.setup = setup;
        this.port = setup.freePorts();
    }

    String address() {
        return "127.0.0.1:" + port;
    }

    /** Starts it for the brokers of one cluster, and waits until it accepts clients. */
    void start(String nameServer) throws Exception {
        Path folder = setup.runFolder.resolve("proxy");
        Path settings = writeSettings(folder.resolve("conf"), nameServer);
        List<String> command = setup.jvm(JarSet.V5, folder, 512);
        command.add(1, "-XX:MaxDirectMemorySize=256m");
        command.addAll(List.of("org.apache.rocketmq.proxy.ProxyStartup", "-pm", "CLUSTER",
            "-n", nameServer, "-pc", settings.toString()));
        program = Program.start("proxy", folder, Setup.environment(folder), command);
        Expect.within(START_SECONDS, "whether the proxy accepts connections", "true", () -> {
            if (program.alive()) return Setup.accepts(port);
            throw new Mismatch("the proxy", "running", "ended, see " + program.log);
        }, open -> open);
    }

    private Path writeSettings(Path folder, String nameServer) throws IOException {
        Files.createDirectories(folder);
        return Files.writeString(folder.resolve("rmq-proxy.json"), """
            {
              "rocketMQClusterName": "%s",
              "namesrvAddr": "%s",
              "proxyMode": "CLUSTER",
              "grpcServerPort": %d,
              "remotingListenPort": %d,
              "localServeAddr": "127.0.0.1",
              "grpcThreadPoolNums": 4,
              "useEndpointPortFromRequest": true
            }
            """.formatted(Fleet.CLUSTER, nameServer, port, port + 1));
    }

    /** Its program, or null before the start. */
    Program program() {
        return program;
    }
}
