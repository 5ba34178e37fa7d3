import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Masters and slaves of one name, with and without a controller, and brokers in one process. */
final class GroupSteps {
    private static final String MASTER = "acting-0";
    private static final String SLAVE = "acting-1";
    private static final List<String> PAIR = List.of(MASTER, SLAVE);

    private static final Fleet.Plan ACTING = new Fleet.Plan("acting-server",
        List.of("supportActingMaster=true", "notifyMinBrokerIdChanged=true"),
        List.of(
            Broker.Plan.member(MASTER, "acting", 0, "ASYNC_MASTER")
                .with("enableSlaveActingMaster=true"),
            Broker.Plan.member(SLAVE, "acting", 1, "SLAVE")
                .with("enableSlaveActingMaster=true")));

    private static final Route.Queues WRITABLE = new Route.Queues(4, 4, 6);
    private static final Route.Queues READABLE = new Route.Queues(4, 4, 4);
    /** brokerNotActiveTimeoutMillis of a broker with enableSlaveActingMaster. */
    private static final double SILENT_SECONDS = 10;
    /** The longest time between two looks at the age of brokers. */
    private static final double SCAN_SECONDS = 5;
    /** A slave's log line of a request 905. */
    private static final String TOLD = "min broker id changed, prev ";
    private static final String LEFT = "the brokers after kill -9 of their process";
    private static final double START_SECONDS = 120;

    static final List<Step> ALL = List.of(
        new Step("acting-pair", "the route of a group has both members, with their ids",
            ACTING, PAIR, GroupSteps::actingPair),
        new Step("acting-kill", "without its master the slave is readable in its place; it is told",
            ACTING, PAIR, GroupSteps::actingKill),
        new Step("acting-freeze", "a master that stands still loses its place, and gets it back",
            ACTING, PAIR, GroupSteps::actingFreeze),
        new Step("controller", "a slave that the controller makes master registers as master",
            List.of(), GroupSteps::controller).thatControlsServers(),
        new Step("container", "brokers of one process are all gone when it is killed",
            List.of(), GroupSteps::container).thatControlsServers()
            .thatDiffers("drops one broker of a closed connection", LEFT));

    private GroupSteps() { }

    private static Route bothOf(Fleet fleet) {
        return Route.of(WRITABLE, fleet.broker(MASTER), fleet.broker(SLAVE));
    }

    private static Route slaveInPlace(Fleet fleet) {
        return Route.inPlaceOfMaster(READABLE, fleet.broker(SLAVE));
    }

    private static String actingPair(Fleet fleet) throws Exception {
        Route route = fleet.makeTopicOn(fleet.broker(MASTER), "on-a-pair", 4);
        Expect.equalWithin(Expect.PATIENCE_SECONDS, "ACTIVATED of the members",
            Map.of("0", "true", "1", "false"), () -> activated(fleet));
        fleet.send("on-a-pair", "hello", "acting", 3);
        return route.toString();
    }

    /**
     * The column ACTIVATED of {@code clusterList}, by the true id of the member. A broker that has
     * just started cannot be asked yet: its row has no version, and an exception is printed too.
     */
    private static Map<String, String> activated(Fleet fleet) throws Exception {
        return fleet.mqadmin("clusterList").rows().stream()
            .filter(row -> row.size() > 4 && row.get(4).equals("V5_5_0"))
            .collect(Collectors.toMap(row -> row.get(2), row -> row.get(row.size() - 1)));
    }

    private static String actingKill(Fleet fleet) throws Exception {
        String topic = "of-a-killed-master";
        Broker master = fleet.broker(MASTER);
        Broker slave = fleet.broker(SLAVE);
        fleet.makeTopicOn(master, topic, 4);
        int told = slave.program().logged(TOLD).size();
        master.kill();
        double seconds = Expect.equalWithin(Expect.AT_ONCE_SECONDS, "the route without its master",
            slaveInPlace(fleet), () -> fleet.route(topic));
        Expect.within(Expect.AT_ONCE_SECONDS, "lines of the slave's log with '" + TOLD + "'",
            "one more than " + told, () -> slave.program().logged(TOLD).size(),
            lines -> lines == told + 1);
        Expect.equal("the true addresses", Map.of("acting", Map.of(1L, slave.address())),
            Ask.addresses(fleet.server));
        Expect.equalWithin(Expect.PATIENCE_SECONDS, "ACTIVATED of the slave", Map.of("1", "true"),
            () -> activated(fleet));
        master.start(fleet.server.address());
        master.awaitRegistered(fleet);
        Expect.equalWithin(Expect.ONE_HEARTBEAT_SECONDS, "the route with its master again",
            bothOf(fleet), () -> fleet.route(topic));
        return Step.after("the slave in its place", seconds) + ", told so";
    }

    private static String actingFreeze(Fleet fleet) throws Exception {
        String topic = "of-a-frozen-master";
        Broker master = fleet.broker(MASTER);
        fleet.makeTopicOn(master, topic, 4);
        master.program().freeze();
        double seconds;
        try {
            seconds = Expect.equalWithin(
                SILENT_SECONDS + SCAN_SECONDS + Expect.AT_ONCE_SECONDS,
                "the route of a master that stands still", slaveInPlace(fleet),
                () -> fleet.route(topic));
        } finally {
            master.program().thaw();
        }
        // It says that it lives once a second.
        Expect.that("seconds until then", "at least " + (SILENT_SECONDS - 2),
            seconds >= SILENT_SECONDS - 2, seconds);
        double back = Expect.equalWithin(Expect.ONE_HEARTBEAT_SECONDS, "the route after SIGCONT",
            bothOf(fleet), () -> fleet.route(topic));
        return Step.after("the slave in its place", seconds) + ", " + Step.after("back", back);
    }

    private static String controller(Fleet fleet) throws Exception {
        String group = "controlled";
        Fleet own = fleet.another("controller-server");
        try {
            int port = fleet.setup.freePorts();
            own.watch(startController(fleet.setup, port));
            for (String label : List.of("controlled-x", "controlled-y")) {
                own.with(Broker.Plan.member(label, group, -1, "ASYNC_MASTER")
                    .with("enableControllerMode=true", "controllerAddr=127.0.0.1:" + port));
            }
            List<Broker> both = List.of(own.broker("controlled-x"), own.broker("controlled-y"));
            own.start(List.of("controlled-x", "controlled-y"));
            Map<Long, String> elected = awaitMembers(own, group, START_SECONDS,
                "a master and a slave", members -> members.size() == 2 && members.containsKey(0L));
            // A slave that has not caught up is not made master.
            String controller = "127.0.0.1:" + port;
            Expect.within(START_SECONDS, "the members that are in sync", "2",
                () -> own.mqadmin("getSyncStateSet", "-a", controller, "-b", group)
                    .matches("#SyncStateSetNums\\t2").size(), found -> found == 1);
            Broker master = withAddress(both, elected.get(0L));
            Broker slave = both.get(1 - both.indexOf(master));
            master.kill();
            long start = System.nanoTime();
            awaitMembers(own, group, START_SECONDS, "the slave, as master",
                members -> members.equals(Map.of(0L, slave.address())));
            double seconds = (System.nanoTime() - start) / 1e9;
            own.tellTopic(slave, "on-the-new-master", 4);
            Expect.equalWithin(Expect.AT_ONCE_SECONDS, "the route on the new master",
                new Route(Map.of(group, slave.cluster + " {0=" + slave.address() + "}"),
                    Map.of(group, WRITABLE)), () -> own.route("on-the-new-master"));
            own.send("on-the-new-master", "hello", group, 3);
            master.start(own.server.address());
            Map<Long, String> again = awaitMembers(own, group, START_SECONDS,
                "the old master as a slave", members -> members.size() == 2
                    && slave.address().equals(members.get(0L))
                    && members.containsValue(master.address()));
            return Step.after("the slave is master", seconds) + ", then " + again.keySet();
        } finally {
            own.endWithin(fleet);
        }
    }

    /** The members of a group, by id, as soon as they are as wanted. */
    private static Map<Long, String> awaitMembers(Fleet fleet, String group, double seconds,
            String expected, Predicate<Map<Long, String>> good)
            throws Exception {
        return Expect.within(seconds, "the members of " + group, expected,
            () -> fleet.addresses(group), good);
    }

    private static Broker withAddress(List<Broker> brokers, String address) {
        return brokers.stream().filter(broker -> broker.address().equals(address)).findFirst()
            .orElseThrow(() -> new Mismatch("the address of the master", brokers, address));
    }

    private static Program startController(Setup setup, int port) throws Exception {
        String name = "controller";
        Path folder = setup.runFolder.resolve(name);
        Files.createDirectories(folder);
        Path file = Files.write(folder.resolve("controller.properties"), List.of(
            "controllerDLegerGroup=group",
            "controllerDLegerPeers=n0-127.0.0.1:" + port,
            "controllerDLegerSelfId=n0",
            "controllerStorePath=" + folder.resolve("store"),
            "mappedFileSize=16777216"));
        List<String> command = setup.jvm(JarSet.V5, folder, 256);
        command.addAll(List.of("org.apache.rocketmq.controller.ControllerStartup", "-c",
            file.toString()));
        Program program = Program.start(name, folder, Setup.environment(folder), command);
        Expect.within(START_SECONDS, "whether the controller accepts connections", "true",
            () -> Setup.accepts(port), open -> open);
        return program;
    }

    private static String container(Fleet fleet) throws Exception {
        Fleet own = fleet.another("container-server").with(
            Broker.Plan.of("contained-a"),
            Broker.Plan.member("contained-b-0", "contained-b", 0, "ASYNC_MASTER"),
            Broker.Plan.member("contained-b-1", "contained-b", 1, "SLAVE"));
        List<Broker> brokers = Stream.of("contained-a", "contained-b-0", "contained-b-1")
            .map(own::broker).toList();
        try {
            own.start(List.of());
            Tap tap = new Tap(fleet.setup.freePorts(), own.server.address());
            Program container = startContainer(fleet.setup, tap.address(), brokers);
            own.watch(container);
            Map<String, Map<Long, String>> all = Map.of(
                "contained-a", Map.of(0L, brokers.get(0).address()),
                "contained-b", Map.of(0L, brokers.get(1).address(), 1L, brokers.get(2).address()));
            Expect.within(START_SECONDS, "the brokers of the container", all.toString(),
                () -> Ask.addresses(own.server), all::equals);
            Expect.equalWithin(2 * Broker.HEARTBEAT_SECONDS,
                "the connections of the latest registration of each broker", 1,
                () -> latestConnections(tap).size());
            Route route = own.makeTopicOn(brokers.get(1), "in-a-container", 4);
            Expect.equal("the route", Route.of(WRITABLE, brokers.get(1), brokers.get(2)), route);
            own.send("in-a-container", "hello", "contained-b", 3);
            container.kill();
            double seconds = Expect.equalWithin(Expect.AT_ONCE_SECONDS,
                LEFT, Map.of(), () -> Ask.addresses(own.server));
            Expect.equal("the route after it", Route.NONE, own.route("in-a-container"));
            return Step.after("all three gone", seconds);
        } finally {
            own.endWithin(fleet);
        }
    }

    /** A broker whose request timed out has registered by several. */
    private static Set<Integer> latestConnections(Tap tap) {
        Map<String, Integer> latest = new HashMap<>();
        for (Tap.Request request : tap.requests(Registration.CODE)) {
            latest.put(request.field("brokerAddr"), request.connection());
        }
        return new HashSet<>(latest.values());
    }

    private static Program startContainer(Setup setup, String nameServer, List<Broker> brokers)
            throws Exception {
        String name = "container";
        Path folder = setup.runFolder.resolve(name);
        Files.createDirectories(folder);
        List<String> files = new ArrayList<>();
        for (Broker broker : brokers) files.add(broker.writeSettings(nameServer).toString());
        Path file = Files.write(folder.resolve("container.conf"), List.of(
            "listenPort=" + (setup.freePorts() + 5),
            "bindAddress=127.0.0.1",
            "namesrvAddr=" + nameServer,
            "brokerContainerIP=127.0.0.1",
            "connectTimeoutMillis=500",
            "brokerConfigPaths=" + String.join(":", files)));
        List<String> command = setup.jvm(JarSet.V5, folder, 768);
        command.add(1, "-XX:MaxDirectMemorySize=512m");
        command.addAll(List.of("org.apache.rocketmq.container.BrokerContainerStartup", "-c",
            file.toString()));
        return Program.start(name, folder, Setup.environment(folder), command);
    }
}
