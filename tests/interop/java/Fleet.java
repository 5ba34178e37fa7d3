import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The programs of a run: one name server, its brokers, mqadmin. */
final class Fleet {
    static final String CLUSTER = "DefaultCluster";
    static final String A = "broker-a";
    static final String B = "broker-b";
    /** A broker, in a cluster of its own, that compresses its registrations. */
    static final String COMPRESSING = "broker-z";
    /** The broker of {@link #secure}. */
    static final String SECURE = "broker-t";

    final Setup setup;
    final NameServer server;
    private final Mqadmin mqadmin;
    private final Map<String, Broker> brokers = new LinkedHashMap<>();
    /** Programs of single steps, for the report of a failure. */
    private final List<Program> others = new ArrayList<>();

    /** One row of {@code clusterList}. */
    record Member(String cluster, String name, String id, String address) { }

    private Fleet(Setup setup, NameServer server, Mqadmin mqadmin) {
        this.setup = setup;
        this.server = server;
        this.mqadmin = mqadmin;
    }

    Fleet(Setup setup) {
        this(setup, new NameServer(setup, "server", List.of()), new Mqadmin(setup, "mqadmin"));
        add(new Broker(setup, A, CLUSTER, List.of(), List.of()));
        // The second one sends RocketMQ's binary header instead of the JSON one.
        add(new Broker(setup, B, CLUSTER, List.of("-Drocketmq.serialize.type=ROCKETMQ"),
            List.of()));
        add(new Broker(setup, COMPRESSING, "CompressingCluster", List.of(),
            List.of("compressedRegister=true")));
    }

    /** A fleet of its own, with one broker, whose programs speak TLS alone. Not started. */
    Fleet secure(Tls tls) {
        Fleet fleet = new Fleet(setup, new NameServer(setup, "tls-server", tls.ofServer()),
            new Mqadmin(setup, "tls-mqadmin", tls.ofClient()));
        fleet.add(new Broker(setup, SECURE, CLUSTER, tls.ofBroker(), List.of()));
        return fleet;
    }

    private void add(Broker broker) {
        brokers.put(broker.name, broker);
    }

    /** Starts mqadmin, the server, and some brokers; does not wait for the brokers. */
    void start(Collection<String> names) throws Exception {
        mqadmin.start();
        server.start();
        for (String name : names) broker(name).start(server.address());
    }

    /** Sees to it that these brokers run and are registered; returns those it waited for. */
    List<String> use(Collection<String> names) throws Exception {
        for (String name : names) {
            if (!broker(name).running()) broker(name).start(server.address());
        }
        List<String> awaited = names.stream().filter(name -> !broker(name).registered()).toList();
        for (String name : awaited) broker(name).awaitRegistered(this);
        return awaited;
    }

    Broker broker(String name) {
        return brokers.get(name);
    }

    /** Runs an mqadmin command against the fleet's server. */
    Answer mqadmin(String... arguments) throws Exception {
        return mqadmin.run(server.address(), arguments);
    }

    /** Runs an mqadmin command against another server. */
    Answer mqadminAt(NameServer other, String... arguments) throws Exception {
        return mqadmin.run(other.address(), arguments);
    }

    /** The cluster table. Rows without an address are brokers that are gone. */
    List<Member> members() throws Exception {
        return mqadmin("clusterList").rows().stream().filter(row -> row.size() > 4)
            .map(row -> new Member(row.get(0), row.get(1), row.get(2), row.get(3))).toList();
    }

    Route route(String topic) throws Exception {
        return Route.read(topic, mqadmin("topicRoute", "-t", topic));
    }

    /** Makes a topic on all brokers of the default cluster, and waits for its route. */
    Route makeTopic(String topic, int queues) throws Exception {
        String count = Integer.toString(queues);
        mqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", count, "-w", count);
        return awaitRoute(topic, Route.of(new Route.Queues(queues, queues, 6), broker(A),
            broker(B)));
    }

    /** Makes a topic on one broker alone, and waits for its route. */
    Route makeTopicOn(Broker broker, String topic, int queues) throws Exception {
        String count = Integer.toString(queues);
        mqadmin("updateTopic", "-b", broker.address(), "-t", topic, "-r", count, "-w", count);
        return awaitRoute(topic, Route.of(new Route.Queues(queues, queues, 6), broker));
    }

    private Route awaitRoute(String topic, Route expected) throws Exception {
        Expect.equalWithin(5, "the route of the new topic " + topic, expected,
            () -> route(topic));
        return expected;
    }

    /** A further server of the same kind, on a port and folder of its own; not started. */
    NameServer anotherServer(String name) {
        return new NameServer(setup, name, List.of());
    }

    /** Runs {@link RoundTrip}; returns the line that it printed. */
    String roundTrip(String name, String topic, int count, String... jvmOptions)
            throws Exception {
        var folder = setup.runFolder.resolve(name);
        List<String> command = setup.jvm(folder, 256, jvmOptions);
        command.addAll(List.of("RoundTrip", server.address(), topic, Integer.toString(count),
            "30"));
        Program client = Program.start(name, folder, Setup.environment(folder), command);
        watch(client);
        Expect.equal("the exit code of " + name, 0, client.awaitEnd(60));
        return client.tail(1000).stream().filter(line -> line.startsWith("sent="))
            .findFirst().orElse("(no result line in " + client.log + ")");
    }

    /** Has a failing step's report show this program's log, too. */
    void watch(Program program) {
        others.add(program);
    }

    /** Forgets the programs of the step before. */
    void beginStep() {
        others.clear();
    }

    /** What a step's failure may be explained by. */
    List<Program> programs() {
        return Stream.concat(
                Stream.concat(Stream.of(server.program()), others.stream()),
                Stream.concat(brokers.values().stream().map(Broker::program),
                    Stream.of(mqadmin.program())))
            .filter(program -> program != null).distinct().toList();
    }

    Answer lastAnswer() {
        return mqadmin.last();
    }
}
