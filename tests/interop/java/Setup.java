import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Where things are, and how a JVM is started here. */
final class Setup {
    /** Which name server the steps run against. */
    enum Kind {
        /** The guidepost program; started and stopped by the run. */
        GUIDEPOST,
        /** The Java NameServer 5.5.0; started and stopped by the run. */
        JAVA,
        /** A server that is already there; never started or stopped. */
        GIVEN
    }

    final Kind kind;
    /** The guidepost program, or the address of a given server, or "java". */
    final String server;
    /** A folder made afresh for each run; every program has its own folder in it. */
    final Path runFolder;
    /** The folder of jars and classes. */
    private final Path folder;
    /** The folder of {@code tests/interop}. */
    private final Path sources;
    private int nextPort;

    /** {@code server}: "java", HOST:PORT, or the path of the guidepost program. */
    Setup(String server, Path folder, Path sources, int firstPort) {
        this.server = server;
        this.folder = folder;
        this.runFolder = folder.resolve("run");
        this.sources = sources;
        this.nextPort = firstPort;
        if (server.equals("java")) kind = Kind.JAVA;
        else if (server.matches("[^/]+:\\d+")) kind = Kind.GIVEN;
        else kind = Kind.GUIDEPOST;
    }

    /**
     * The first port of the next ten that are all free. A broker takes three: its own, two below
     * it and one above it.
     */
    synchronized int freePorts() {
        for (; nextPort < 65_000; nextPort += 10) {
            int first = nextPort;
            boolean free = true;
            for (int port = first; port < first + 10 && free; port++) free = isFree(port);
            if (free) {
                nextPort += 10;
                return first;
            }
        }
        throw new IllegalStateException("no ten free ports in a row below 65000");
    }

    private static boolean isFree(int port) {
        try (ServerSocket probe = new ServerSocket()) {
            probe.setReuseAddress(true);
            probe.bind(new InetSocketAddress("127.0.0.1", port));
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /** Whether somebody accepts connections on a loopback port. */
    static boolean accepts(int port) {
        try (Socket probe = new Socket()) {
            probe.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /**
     * The command of a JVM with the jars and test programs of one set; a program and its
     * arguments follow. Its own files go to {@code home}.
     */
    List<String> jvm(JarSet set, Path home, int heapMegabytes, String... options)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-Xmx" + heapMegabytes + "m");
        // Short-lived programs on few cores: the simplest collector and the first compiler only.
        command.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"));
        // RocketMQ and the Netty it carries reach into the JDK.
        for (String part : List.of("java.lang", "java.nio", "sun.nio.ch")) {
            command.add("--add-opens=java.base/" + part + "=ALL-UNNAMED");
        }
        command.add("--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED");
        command.addAll(logging(set, home));
        // Settings, offsets and unpacked native libraries land below these two.
        command.add("-Duser.home=" + home);
        command.add("-Djava.io.tmpdir=" + home);
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", folder.resolve("classes").resolve(set.folder) + ":"
            + folder.resolve("jars").resolve(set.folder) + "/*"));
        return command;
    }

    /** Options that have a program log to its own output alone. */
    private List<String> logging(JarSet set, Path home) throws IOException {
        if (set == JarSet.V5) {
            return List.of("-Drmq.logback.configurationFile=" + sources.resolve("logback-5.xml"));
        }
        // 4.9.7 insists on finding these in its ROCKETMQ_HOME.
        Path file = sources.resolve("logback-4.xml");
        Files.createDirectories(home.resolve("conf"));
        for (String program : List.of("broker", "namesrv", "tools")) {
            Files.copy(file, home.resolve("conf/logback_" + program + ".xml"),
                StandardCopyOption.REPLACE_EXISTING);
        }
        return List.of("-Dlogback.configurationFile=" + file);
    }

    /** What a tool has made of its folder. */
    Path made(Tool tool) {
        return folder.resolve("clients").resolve(tool.folder);
    }

    /** A file or folder of {@code tests/interop}. */
    Path source(String name) {
        return sources.resolve(name);
    }

    /** The environment of every program: a home of its own. */
    static Map<String, String> environment(Path folder) {
        return Map.of("HOME", folder.toString(), "ROCKETMQ_HOME", folder.toString());
    }
}
