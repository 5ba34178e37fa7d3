import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A real RocketMQ broker. */
final class Broker {
    /** How often a broker registers: the shortest period that it accepts. */
    static final int HEARTBEAT_SECONDS = 10;
    /** What is checked while waiting for a registration. */
    static final String REGISTERED = "the addresses of a started broker";
    private static final int START_SECONDS = 240;

    /**
     * How a broker is started.
     *
     * @param label names it among the brokers of its fleet, and its folder
     * @param name its brokerName, which the members of a group share
     * @param id 0 for a master
     * @param settings of broker.conf, as {@code key=value}; {@code {server}} is the name server
     * @param tapped whether it speaks with the name server through a {@link Tap}
     */
    record Plan(String label, String name, String cluster, long id, JarSet set,
            List<String> jvmOptions, List<String> settings, boolean tapped) {
        /** A master of release 5.5.0. */
        static Plan of(String name) {
            return new Plan(name, name, Fleet.CLUSTER, 0, JarSet.V5, List.of(), List.of(), false);
        }

        /** A member of a group; {@code role} as in broker.conf. */
        static Plan member(String label, String group, long id, String role) {
            return new Plan(label, group, Fleet.CLUSTER, id, JarSet.V5, List.of(),
                List.of("brokerRole=" + role), false);
        }

        Plan in(String otherCluster) {
            return new Plan(label, name, otherCluster, id, set, jvmOptions, settings, tapped);
        }

        Plan of(JarSet other) {
            return new Plan(label, name, cluster, id, other, jvmOptions, settings, tapped);
        }

        Plan withJvm(String... options) {
            return new Plan(label, name, cluster, id, set, joined(jvmOptions, options), settings,
                tapped);
        }

        Plan with(String... more) {
            return new Plan(label, name, cluster, id, set, jvmOptions, joined(settings, more),
                tapped);
        }

        Plan withTap() {
            return new Plan(label, name, cluster, id, set, jvmOptions, settings, true);
        }

        private static List<String> joined(List<String> first, String... more) {
            return Stream.concat(first.stream(), Stream.of(more)).toList();
        }
    }

    final Plan plan;
    final String name;
    final String cluster;
    private final Setup setup;
    private final Path folder;
    private final int port;
    private Program program;
    private Tap tap;
    /** Started, and not stopped by this suite since. */
    private boolean wanted;
    private boolean registered;

    Broker(Setup setup, Plan plan) {
        this.setup = setup;
        this.plan = plan;
        this.name = plan.name;
        this.cluster = plan.cluster;
        this.folder = setup.runFolder.resolve(plan.label);
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
        throw new Mismatch(plan.label, "running",
            "ended with exit code " + program.process.exitValue());
    }

    /** Starts it, on the store that it had. It registers some seconds later. */
    void start(String nameServer) throws IOException {
        if (program != null) program.kill(); // a second process on one store would fail
        if (plan.tapped && tap == null) tap = new Tap(setup.freePorts(), nameServer);
        Path file = writeSettings(plan.tapped ? tap.address() : nameServer);
        List<String> command = setup.jvm(plan.set, folder, 512,
            plan.jvmOptions.toArray(new String[0]));
        command.add(1, "-XX:MaxDirectMemorySize=512m");
        command.addAll(List.of("org.apache.rocketmq.broker.BrokerStartup", "-c", file.toString()));
        program = Program.start(plan.label, folder, Setup.environment(folder), command);
        wanted = true;
        registered = false;
    }

    /** Writes broker.conf, for a program that reads it. */
    Path writeSettings(String nameServer) throws IOException {
        Files.createDirectories(folder);
        List<String> lines = new ArrayList<>(List.of(
            "brokerClusterName=" + cluster,
            "brokerName=" + name,
            "brokerId=" + plan.id,
            "brokerIP1=127.0.0.1",
            // The address for replication; without it that of another interface.
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
        // The last one of a key counts.
        plan.settings.forEach(line -> lines.add(line.replace("{server}", nameServer)));
        return Files.write(folder.resolve("broker.conf"), lines);
    }

    /** Waits until the name server lists it: its port opens seconds before it registers. */
    void awaitRegistered(Fleet fleet) throws Exception {
        Expect.within(START_SECONDS, "whether " + plan.label + " accepts connections", "true",
            () -> {
                requireAlive();
                return Setup.accepts(port);
            }, open -> open);
        // Two turns: a broker that has not found the server by the first one leaves that out.
        Expect.within(2.5 * HEARTBEAT_SECONDS, REGISTERED, plan.id + "=" + address(),
            () -> fleet.addresses(name),
            addresses -> address().equals(addresses.get(plan.id)));
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

    /** What it said to the name server, if its plan has a tap. */
    Tap tap() {
        return tap;
    }

    /** Its program, or null before the first start. */
    Program program() {
        return program;
    }
}
