import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Clients of other releases and languages: each sends 100 messages and receives all of them. */
final class ClientSteps {
    private static final List<String> BOTH = List.of(Fleet.A, Fleet.B);
    private static final int COUNT = 100;
    private static final String ALL_CAME = "sent=" + COUNT + " received=" + COUNT + " strangers=0";
    private static final String FROM_BOTH =
        ALL_CAME + " brokers={" + Fleet.A + "=N, " + Fleet.B + "=N}";

    private static final String JAVA_5 = "JAVA 513 asks 105, ids quoted";

    static final List<Step> ALL = List.of(
        new Step("client-java-5.5.0", "the Java client 5.5.0 sends and receives 100 messages",
            BOTH, fleet -> java(fleet, JarSet.V5, JAVA_5)),
        new Step("client-java-4.9.7", "the Java client 4.9.7",
            BOTH, fleet -> java(fleet, JarSet.V4, "JAVA 407 asks 105, ids quoted"))
            .thatNeeds(JarSet.V4),
        new Step("client-java-4.3.2", "the Java client 4.3.2",
            BOTH, fleet -> java(fleet, JarSet.V43, "JAVA 277 asks 105, ids bare"))
            .thatNeeds(JarSet.V43),
        new Step("client-auto-topic", "a topic that a client makes by sending to it has a route",
            BOTH, ClientSteps::autoTopic).thatNeeds(JarSet.V4),
        new Step("client-namespace", "a client with a namespace and a unit sends and receives",
            BOTH, ClientSteps::namespace),
        new Step("client-ordered", "a client takes the queues of an ordered topic from its setting",
            BOTH, ClientSteps::ordered).thatControlsServers(),
        new Step("client-go", "the Go client v2.1.2 sends and receives 100 messages",
            BOTH, fleet -> program(fleet, "client-go", built(fleet, Tool.GO),
                "GO 317 asks 105, ids bare")).thatNeeds(Tool.GO),
        new Step("client-go-admin", "the Go client lists topics, and deletes one",
            BOTH, ClientSteps::goAdmin).thatNeeds(Tool.GO),
        new Step("client-cpp", "the C++ client, by its Python surface rocketmq 0.4.4",
            List.of(Fleet.A), ClientSteps::cpp).thatNeeds(Tool.PYTHON),
        new Step("client-node", "the JavaScript client ali-ons 3.12.0",
            BOTH, fleet -> program(fleet, "client-node", node(fleet, "remoting"),
                "JAVA 121 asks 105, ids bare")).thatNeeds(Tool.NODE),
        new Step("client-rust", "the Rust client rocketmq-client-rust 1.0.0",
            BOTH, fleet -> program(fleet, "client-rust", built(fleet, Tool.RUST),
                "RUST 474 asks 105, ids quoted"))
            .thatNeeds(Tool.RUST).thatIsSlow("the client takes five minutes to build"));

    private ClientSteps() { }

    private static String java(Fleet fleet, JarSet set, String spoken) throws Exception {
        String name = "client-java-" + set.folder;
        String topic = "made-for-" + name.replace('.', '-');
        fleet.makeTopic(topic, 4);
        return trip(fleet, name, topic, jvm(fleet, name, set), FROM_BOTH, spoken);
    }

    private static List<String> jvm(Fleet fleet, String name, JarSet set, String... options)
            throws Exception {
        List<String> command =
            fleet.setup.jvm(set, fleet.setup.runFolder.resolve(name), 256, options);
        command.add("RoundTrip");
        return command;
    }

    /** A program of another language sends to both brokers, and receives. */
    private static String program(Fleet fleet, String name, List<String> command, String spoken)
            throws Exception {
        String topic = "made-for-" + name;
        fleet.makeTopic(topic, 4);
        return trip(fleet, name, topic, command, ALL_CAME, spoken);
    }

    /** On the first broker alone: it does not understand the binary headers of the other one. */
    private static String cpp(Fleet fleet) throws Exception {
        String topic = "made-for-client-cpp";
        fleet.makeTopicOn(fleet.broker(Fleet.A), topic, 4);
        return trip(fleet, "client-cpp", topic, python(fleet, "remoting"), ALL_CAME,
            "CPP 63 asks 105, ids bare");
    }

    /**
     * Runs a program that sends and receives, with a tap between it and the name server.
     *
     * @param command takes the arguments of {@code RoundTrip}
     * @param expected its result; N stands for any number of messages of a broker
     * @param spoken see {@link #spoken}
     */
    private static String trip(Fleet fleet, String name, String topic, List<String> command,
            String expected, String spoken) throws Exception {
        Tap tap = new Tap(fleet.setup.freePorts(), fleet.server.address());
        List<String> full = new ArrayList<>(command);
        full.addAll(List.of(tap.address(), topic, Integer.toString(COUNT), "30"));
        String result = fleet.clientResult(name, full);
        Expect.equal("the messages", expected,
            result.replaceAll("(broker-[ab])=(?!100\\b)[1-9]\\d*", "$1=N"));
        Expect.equal("what it said to the name server", spoken, spoken(tap));
        return result + ", " + spoken;
    }

    /**
     * "LANGUAGE VERSION asks CODES, ids DIALECT": what a client announced and asked for, and how
     * the ids of brokers were written in the routes that it got, which depends on that.
     */
    private static String spoken(Tap tap) {
        TreeSet<String> names = new TreeSet<>();
        TreeSet<String> codes = new TreeSet<>();
        TreeSet<String> dialects = new TreeSet<>();
        for (Tap.Request request : tap.requests(any -> true)) {
            RemotingCommand command = request.command();
            names.add(command.getLanguage() + " " + command.getVersion());
            codes.add(Integer.toString(request.code()));
            if (!request.answered(0) || request.answer().getBody() == null) continue;
            String body = new String(request.answer().getBody(), StandardCharsets.UTF_8);
            if (body.contains("\"brokerAddrs\":{\"0\":")) dialects.add("quoted");
            if (body.contains("\"brokerAddrs\":{0:")) dialects.add("bare");
        }
        return String.join(", ", names) + " asks " + String.join(", ", codes) + ", ids "
            + String.join(", ", dialects);
    }

    private static String autoTopic(Fleet fleet) throws Exception {
        String topic = "made-by-sending";
        Expect.equal("the route before", Route.NONE, fleet.route(topic));
        String name = "client-auto-topic";
        String result = trip(fleet, name, topic, jvm(fleet, name, JarSet.V4), FROM_BOTH,
            "JAVA 407 asks 105, ids quoted");
        Expect.equal("the route after", Route.of(new Route.Queues(4, 4, 6),
            fleet.broker(Fleet.A), fleet.broker(Fleet.B)), fleet.route(topic));
        return result;
    }

    private static String namespace(Fleet fleet) throws Exception {
        String topic = "made-in-a-namespace";
        String name = "client-namespace";
        String result = trip(fleet, name, topic,
            jvm(fleet, name, JarSet.V5, "-Dnamespace=space", "-Dunit=unit"), FROM_BOTH, JAVA_5);
        List<String> topics = fleet.mqadmin("topicList").lines();
        List<String> expected =
            List.of("%RETRY%space%consumer-of-" + topic, "space%" + topic);
        Expect.that("the list of topics", "a list with " + expected,
            topics.containsAll(expected) && !topics.contains(topic), topics);
        return result;
    }

    /** The setting names fewer queues than there are, so that it shows whether it is heeded. */
    private static String ordered(Fleet fleet) throws Exception {
        String topic = "made-for-ordered";
        fleet.makeTopic(topic, 4);
        fleet.mqadmin("updateOrderConf", "-m", "put", "-t", topic, "-v", Fleet.A + ":2");
        orderMessages(fleet, true);
        try {
            Answer route = fleet.mqadmin("topicRoute", "-t", topic);
            Expect.that(route.command(), "a route with orderTopicConf",
                route.text().contains("\"orderTopicConf\":\"" + Fleet.A + ":2\""), route.text());
            String name = "client-ordered";
            return trip(fleet, name, topic, jvm(fleet, name, JarSet.V5, "-Dkeys=4"),
                ALL_CAME + " brokers={" + Fleet.A + "=" + COUNT + "} misordered=0", JAVA_5);
        } finally {
            orderMessages(fleet, false);
            fleet.mqadmin("updateOrderConf", "-m", "delete", "-t", topic);
        }
    }

    private static void orderMessages(Fleet fleet, boolean on) throws Exception {
        Answer answer = fleet.mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v",
            Boolean.toString(on));
        Expect.that(answer.command(), "success",
            answer.text().contains("update name server config success!"), answer.text());
    }

    private static String goAdmin(Fleet fleet) throws Exception {
        String topic = "made-for-go-admin";
        fleet.makeTopic(topic, 4);
        Expect.equal("the topics that the Go client lists",
            new TreeSet<>(fleet.mqadmin("topicList").lines()), goAdmin(fleet, "before", "list"));
        // It tells the name server alone, and without a cluster.
        goAdmin(fleet, "deletion", "delete", topic);
        Expect.equal("the route of the deleted topic", Route.NONE, fleet.route(topic));
        TreeSet<String> left = goAdmin(fleet, "after", "list");
        Expect.that("the list of topics", "a list without " + topic, !left.contains(topic), left);
        return left.size() + " topics left";
    }

    /** Runs a command of the Go client's program; returns the lines that it printed. */
    private static TreeSet<String> goAdmin(Fleet fleet, String label, String... arguments)
            throws Exception {
        String name = "client-go-admin-" + label;
        List<String> command = new ArrayList<>(built(fleet, Tool.GO));
        command.add(fleet.server.address());
        command.addAll(List.of(arguments));
        Path folder = fleet.setup.runFolder.resolve(name);
        Program program = Program.start(name, folder, Setup.environment(folder), command);
        fleet.watch(program);
        Expect.equal("the exit code of " + name, 0, program.awaitEnd(30));
        return new TreeSet<>(program.tail(Integer.MAX_VALUE));
    }

    /** The one program that a tool has built. */
    private static List<String> built(Fleet fleet, Tool tool) {
        return List.of(fleet.setup.made(tool).resolve("client").toString());
    }


    static List<String> node(Fleet fleet, String program) {
        return List.of("node", fleet.setup.made(Tool.NODE).resolve(program + ".js").toString());
    }

    /** {@code program}: "remoting" or "proxy", each with an environment of its own. */
    static List<String> python(Fleet fleet, String program) {
        Path made = fleet.setup.made(Tool.PYTHON);
        return List.of(made.resolve(program + "/bin/python").toString(),
            made.resolve(program + ".py").toString());
    }
}
