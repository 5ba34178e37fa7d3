import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The programs of a run: one name server, its brokers, mqadmin. */
final class Fleet {
    static final String CLUSTER = "DefaultCluster";
    static final String A = "broker-a";
    static final String B = "broker-b";
    /** A broker, in a cluster of its own, that compresses its registrations. */
    static final String COMPRESSING = "broker-z";

    final Setup setup;
    final NameServer server;
    private final Mqadmin mqadmin;
    private final boolean speaksTls;
    private final Map<String, Broker> brokers = new LinkedHashMap<>();
    private Proxy proxy;
    /** Programs of single steps, for the report of a failure. */
    private final List<Program> others = new ArrayList<>();

    /** One row of {@code clusterList}. */
    record Member(String cluster, String name, String id, String address) { }

    /**
     * What a fleet consists of. Steps that name the same plan share one fleet, which is started
     * for the first of them and ended after the last.
     *
     * @param server names the server and its folder; unique, as the labels of brokers are
     */
    record Plan(String server, List<String> settings, List<Broker.Plan> brokers) { }

    /** The fleet that most steps share. */
    static final Plan COMMON = new Plan("server", List.of("allowRemoteConfigUpdate=true"), List.of(
        Broker.Plan.of(A),
        // The second one sends RocketMQ's binary header instead of the JSON one.
        Broker.Plan.of(B).withJvm("-Drocketmq.serialize.type=ROCKETMQ"),
        Broker.Plan.of(COMPRESSING).in("CompressingCluster").with("compressedRegister=true")));

    private Fleet(Setup setup, NameServer server, Mqadmin mqadmin, boolean speaksTls) {
        this.setup = setup;
        this.server = server;
        this.mqadmin = mqadmin;
        this.speaksTls = speaksTls;
    }

    /** {@code mqadmin} may be that of other fleets, which have started it. */
    Fleet(Setup setup, Plan plan, Mqadmin mqadmin) {
        this(setup, new NameServer(setup, plan.server, plan.settings), mqadmin, false);
        with(plan.brokers.toArray(new Broker.Plan[0]));
    }

    /** A fleet of a single step, with a server of its own. Not started. */
    Fleet another(String serverName, String... settings) {
        return new Fleet(setup, new Plan(serverName, List.of(settings), List.of()), mqadmin);
    }

    /** A fleet whose programs speak TLS alone. Not started. */
    Fleet secure(Tls tls) {
        return new Fleet(setup, new NameServer(setup, "tls-server", tls.ofServer()),
            new Mqadmin(setup, "tls-mqadmin", JarSet.V5, tls.ofClient()), true);
    }

    /** Adds brokers; labels are unique in the whole run. */
    Fleet with(Broker.Plan... plans) {
        for (Broker.Plan plan : plans) brokers.put(plan.label(), new Broker(setup, plan));
        return this;
    }

    /** Starts the server, some brokers, and mqadmin; does not wait for the brokers. */
    void start(Collection<String> labels) throws Exception {
        if (mqadmin.program() == null) {
            mqadmin.start();
            watch(mqadmin.program());
        }
        server.start();
        for (String label : labels) broker(label).start(server.address());
    }

    /** Starts this fleet with all its brokers, and waits for them. */
    void startAll() throws Exception {
        start(brokers.keySet());
        use(brokers.keySet());
    }

    /** Ends all that this fleet has started. */
    void end() {
        started().forEach(Program::kill);
    }

    /** Ends this fleet of a single step; a failure of the step shows the ends of its logs. */
    void endWithin(Fleet stepsFleet) {
        end();
        started().forEach(stepsFleet::watch);
    }

    /** Kills the brokers that nobody needs any more, and the proxy with the last of them. */
    void keepOnly(Collection<String> labels) {
        if (labels.isEmpty() && proxy != null) proxy.program().kill();
        brokers.forEach((label, broker) -> {
            if (broker.program() != null && !labels.contains(label)) broker.kill();
        });
    }

    /** Sees to it that these brokers run and are registered; returns those it waited for. */
    List<String> use(Collection<String> labels) throws Exception {
        for (String label : labels) {
            if (!broker(label).running()) broker(label).start(server.address());
        }
        List<String> awaited = labels.stream().filter(label -> !broker(label).registered())
            .toList();
        for (String label : awaited) broker(label).awaitRegistered(this);
        return awaited;
    }

    Broker broker(String label) {
        return brokers.get(label);
    }

    /** Runs an mqadmin command against the fleet's server. */
    Answer mqadmin(String... arguments) throws Exception {
        return mqadmin.run(server.address(), arguments);
    }

    /** Runs an mqadmin command against the fleet's server, by way of a tap. */
    Answer mqadminThrough(Tap tap, String... arguments) throws Exception {
        return mqadmin.run(tap.address(), arguments);
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

    /** The addresses of a broker in the cluster table, by the members' ids; empty if unknown. */
    Map<Long, String> addresses(String brokerName) throws Exception {
        if (!speaksTls) return Ask.addresses(server).getOrDefault(brokerName, Map.of());
        return members().stream().filter(member -> member.name.equals(brokerName))
            .collect(Collectors.toMap(member -> Long.parseLong(member.id), Member::address));
    }

    Route route(String topic) throws Exception {
        return Route.read(topic, mqadmin("topicRoute", "-t", topic));
    }

    /** Makes a topic on all brokers of the default cluster, and waits for its route. */
    Route makeTopic(String topic, int queues) throws Exception {
        String count = Integer.toString(queues);
        // A broker that is busy with its start may not answer mqadmin in time.
        Expect.within(30, "how many brokers made " + topic, "2",
            () -> mqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", count, "-w", count)
                .matches("create topic to \\S+ success").size(), made -> made == 2);
        return awaitRoute(topic, Route.of(new Route.Queues(queues, queues, 6), broker(A),
            broker(B)));
    }

    /** Makes a topic on one broker alone, and waits for its route, with the whole group. */
    Route makeTopicOn(Broker broker, String topic, int queues) throws Exception {
        tellTopic(broker, topic, queues);
        Broker[] group = brokers.values().stream()
            .filter(member -> member.name.equals(broker.name)).toArray(Broker[]::new);
        return awaitRoute(topic, Route.of(new Route.Queues(queues, queues, 6), group));
    }

    /** Makes a topic on one broker, whatever comes of it. */
    void tellTopic(Broker broker, String topic, int queues) throws Exception {
        String count = Integer.toString(queues);
        Answer answer = mqadmin("updateTopic", "-b", broker.address(), "-t", topic, "-r", count,
            "-w", count);
        Expect.that(answer.command(), "success",
            answer.text().contains("create topic to " + broker.address() + " success."),
            answer.text());
    }

    private Route awaitRoute(String topic, Route expected) throws Exception {
        Expect.equalWithin(20, "the route of the new topic " + topic, expected,
            () -> route(topic));
        return expected;
    }

    /** The proxy of this fleet; started when it is first asked for. */
    Proxy proxy() throws Exception {
        if (proxy == null) {
            proxy = new Proxy(setup);
            proxy.start(server.address());
        }
        return proxy;
    }

    /** A further server of the same kind, on a port and folder of its own; not started. */
    NameServer anotherServer(String name, String... settings) {
        return new NameServer(setup, name, List.of(settings));
    }

    /** Sends a message to one queue, and returns the row: broker, queue, result, message id. */
    List<String> send(String topic, String body, String broker, int queue) throws Exception {
        // A broker that has just started may take longer for its first message than mqadmin waits.
        Answer answer = Expect.within(Expect.PATIENCE_SECONDS, "sendMessage", "no timeout",
            () -> mqadmin("sendMessage", "-t", topic, "-p", body, "-k", "key-1", "-c", "tag-1",
                "-b", broker, "-i", Integer.toString(queue)),
            sent -> !sent.text().contains("RemotingTimeoutException"));
        List<List<String>> rows = answer.rows();
        boolean oneRow = rows.size() == 1 && rows.get(0).size() == 4;
        Expect.that("the table of sendMessage", "one row of four columns", oneRow, answer.text());
        Expect.equal("broker, queue and result",
            List.of(broker, Integer.toString(queue), "SEND_OK"), rows.get(0).subList(0, 3));
        return rows.get(0);
    }

    /** Runs {@code RoundTrip} with the client of a set; returns the line that it printed. */
    String roundTrip(JarSet set, String name, String topic, int count, String... jvmOptions)
            throws Exception {
        List<String> command =
            setup.jvm(set, setup.runFolder.resolve(name), 256, jvmOptions);
        command.addAll(List.of("RoundTrip", server.address(), topic, Integer.toString(count),
            "30"));
        return clientResult(name, command);
    }

    /** Runs a client that sends and receives; returns the line that it printed. */
    String clientResult(String name, List<String> command) throws Exception {
        var folder = setup.runFolder.resolve(name);
        Program client = Program.start(name, folder, Setup.environment(folder), command);
        watch(client);
        Expect.equal("the exit code of " + name, 0, client.awaitEnd(90));
        return client.tail(1000).stream().filter(line -> line.startsWith("sent="))
            .findFirst().orElse("(no result line in " + client.log + ")");
    }

    /** Has this program end with the fleet, and a failing step's report show its log, too. */
    void watch(Program program) {
        others.add(program);
    }

    /** Forgets the programs of the step before. */
    void beginStep() {
        others.clear();
    }

    private List<Program> started() {
        return Stream.concat(Stream.concat(Stream.of(server.program()), others.stream()),
                Stream.concat(brokers.values().stream().map(Broker::program),
                    Stream.ofNullable(proxy).map(Proxy::program)))
            .filter(program -> program != null).distinct().toList();
    }

    /** What a step's failure may be explained by. */
    List<Program> programs() {
        return Stream.concat(started().stream(), Stream.of(mqadmin.program())).distinct()
            .toList();
    }
}
