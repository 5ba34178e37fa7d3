import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A real RocketMQ 5.5.0 broker. */
final class Broker {
    /** How often a broker registers: the shortest period that it accepts. */
    static final int HEARTBEAT_SECONDS = 10;
    private static final int START_SECONDS = 90;

    final String name;
    final String cluster;
    private final Setup setup;
    private final Path folder;
    private final int port;
    private final List<String> jvmOptions;
    private final List<String> settings;
    private Program program;
    /** Started, and not stopped by this suite since. */
    private boolean wanted;
    private boolean registered;

    Broker(Setup setup, String name, String cluster, List<String> jvmOptions,
            List<String> settings) {
        this.setup = setup;
        this.name = name;
        this.cluster = cluster;
        this.jvmOptions = jvmOptions;
        this.settings = settings;
        this.folder = setup.runFolder.resolve(name);
        this.port = setup.freePorts() + 5;
    }

    String address() {
        return "127.0.0.1:" + port;
    }

    /** Whether it was started and not stopped; a broker that ended by itself is a mismatch. */
    boolean running() {
        if (wanted) requireAlive();
        return wanted;
    }

    /** Whether it was seen in the cluster table since its start. */
    boolean registered() {
        return registered;
    }

    private void requireAlive() {
        if (program.alive()) return;
        throw new Mismatch(name, "running", "ended with exit code " + program.process.exitValue());
    }

    /** Starts it, on the store that it had. It registers some seconds later. */
    void start(String nameServer) throws IOException {
        if (program != null) program.kill(); // a second process on one store would fail
        Files.createDirectories(folder);
        Path file = folder.resolve("broker.conf");
        List<String> lines = new ArrayList<>(List.of(
            "brokerClusterName=" + cluster,
            "brokerName=" + name,
            "brokerId=0",
            "brokerIP1=127.0.0.1",
            "brokerIP2=127.0.0.1",
            "bindAddress=127.0.0.1",
            "listenPort=" + port,
            "namesrvAddr=" + nameServer,
            "registerNameServerPeriod=" + HEARTBEAT_SECONDS * 1000,
            // A broker registers only with servers that it found reachable, and it looks once in
            // this time; with the default, 3 s, it often leaves out a whole turn after a start.
            "connectTimeoutMillis=500",
            "storePathRootDir=" + folder.resolve("store"),
            "storePathCommitLog=" + folder.resolve("store/commitlog"),
            "mappedFileSizeCommitLog=16777216",
            "mappedFileSizeConsumeQueue=300000",
            "mappedFileSizeTimerLog=1048576",
            "flushDiskType=ASYNC_FLUSH"));
        lines.addAll(settings);
        Files.write(file, lines);
        List<String> command = setup.jvm(folder, 512, jvmOptions.toArray(new String[0]));
        command.add(1, "-XX:MaxDirectMemorySize=512m");
        command.addAll(List.of("org.apache.rocketmq.broker.BrokerStartup", "-c", file.toString()));
        program = Program.start(name, folder, Setup.environment(folder), command);
        wanted = true;
        registered = false;
    }

    /** Waits until the name server lists it: its port opens seconds before it registers. */
    void awaitRegistered(Fleet fleet) throws Exception {
        Expect.within(START_SECONDS, "whether " + name + " accepts connections", "true", () -> {
            requireAlive();
            return Setup.accepts(port);
        }, open -> open);
        Fleet.Member expected = new Fleet.Member(cluster, name, "0", address());
        // Two turns: a broker that has not found the server by the first one leaves that out.
        Expect.within(2.5 * HEARTBEAT_SECONDS, "the members of the cluster table",
            "a list with " + expected, fleet::members, members -> members.contains(expected));
        registered = true;
    }

    /** Ends it as a power failure would. */
    void kill() {
        wanted = false;
        program.kill();
    }

    /** Sends TERM; it takes some ten seconds to end. */
    void terminate() {
        wanted = false;
        program.terminate();
    }

    /** Its program, or null before the first start. */
    Program program() {
        return program;
    }
}
