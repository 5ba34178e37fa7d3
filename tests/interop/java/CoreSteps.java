import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.stream.Collectors;

/**
 * mqadmin, the Java client, restarts, TLS. Each step makes the topics that it needs, so that each
 * can run alone; the order is that of {@link #ALL}.
 */
final class CoreSteps {
    private static final List<String> A = List.of(Fleet.A);
    private static final List<String> BOTH = List.of(Fleet.A, Fleet.B);
    private static final String EXIT_CODE = "the exit code after SIGTERM";
    /** The one namespace of key-values that mqadmin can read back. */
    private static final String READABLE = "ORDER_TOPIC_CONFIG";

    static final List<Step> ALL = List.of(
        new Step("clusterList", "brokers register, with JSON and with binary headers",
            BOTH, CoreSteps::clusterList),
        new Step("updateTopic", "a new topic's route appears, with its queue numbers",
            BOTH, CoreSteps::updateTopic),
        new Step("topicList", "topics are listed, each once; topicClusterList knows the cluster",
            BOTH, CoreSteps::topicList),
        new Step("topicRoute", "routes are readable; a missing topic has code 17",
            BOTH, CoreSteps::topicRoute),
        new Step("sendMessage", "a message is stored on the broker of the route",
            BOTH, CoreSteps::sendMessage),
        new Step("consumeMessage", "the message that was sent comes back",
            BOTH, CoreSteps::consumeMessage),
        new Step("updateKvConfig", "a key-value is written, replaced, read back, deleted",
            List.of(), CoreSteps::updateKvConfig),
        new Step("updateOrderConf", "an order configuration is written, read back, deleted",
            List.of(), CoreSteps::updateOrderConf),
        new Step("getNamesrvConfig", "settings are shown under the names operators know",
            List.of(), CoreSteps::getNamesrvConfig),
        new Step("wipeWritePerm", "all topics of one broker become read-only",
            BOTH, CoreSteps::wipeWritePerm),
        new Step("addWritePerm", "and become writable again",
            BOTH, CoreSteps::addWritePerm),
        new Step("deleteTopic", "a deleted topic has no route and is not listed",
            BOTH, CoreSteps::deleteTopic),
        new Step("client-json", "a Java client sends 100 messages, and receives all of them",
            BOTH, fleet -> roundTrip(fleet, "client-json")),
        new Step("client-binary", "the same with RocketMQ's binary header",
            BOTH, fleet -> roundTrip(fleet, "client-binary",
                "-Drocketmq.serialize.type=ROCKETMQ")),
        new Step("compressed-register", "a broker with compressedRegister=true registers",
            List.of(Fleet.COMPRESSING), CoreSteps::compressedRegister)
            .thatDiffers("broker 5.5.0 compresses the body and says that it did not",
                Broker.REGISTERED),
        new Step("server-kill-keeps-kv", "acknowledged key-values survive kill -9 of the server",
            List.of(), CoreSteps::serverKillKeepsKv).thatControlsServers(),
        new Step("server-stop", "SIGTERM ends the server, with exit code 0",
            List.of(), CoreSteps::serverStop).thatControlsServers()
            .thatDiffers("a JVM that is stopped exits with 143", EXIT_CODE),
        new Step("broker-kill", "after kill -9 of its broker a topic has no route",
            BOTH, CoreSteps::brokerKill),
        new Step("server-restart", "a restarted server has the route within one heartbeat",
            A, CoreSteps::serverRestart).thatControlsServers(),
        new Step("broker-stop", "after SIGTERM to its broker a topic has no route",
            A, CoreSteps::brokerStop),
        new Step("tls", "broker, mqadmin and clients work by TLS alone, with certificates verified",
            List.of(), CoreSteps::tls).thatControlsServers()
            .thatNeeds(JarSet.V4, JarSet.V43));

    private CoreSteps() { }

    private static String clusterList(Fleet fleet) throws Exception {
        List<Fleet.Member> expected = BOTH.stream().map(fleet::broker)
            .map(b -> new Fleet.Member(b.cluster, b.name, "0", b.address())).toList();
        Expect.equal("the rows of the cluster",
            expected, fleet.members().stream()
                .filter(member -> member.cluster().equals(Fleet.CLUSTER)).toList());
        for (List<String> row : fleet.mqadmin("clusterList", "-c", Fleet.CLUSTER).rows()) {
            Expect.equal("version of " + row.get(1), "V5_5_0", row.get(4));
            Expect.equal("#ACTIVATED of " + row.get(1), "true", row.get(row.size() - 1));
        }
        return expected.size() + " active masters";
    }

    private static String updateTopic(Fleet fleet) throws Exception {
        String topic = "made-by-updateTopic";
        Answer answer = fleet.mqadmin("updateTopic", "-c", Fleet.CLUSTER, "-t", topic, "-r", "3",
            "-w", "5");
        Set<String> told = answer.matches("create topic to (\\S+) success\\.").stream()
            .map(match -> match.group(1)).collect(Collectors.toCollection(TreeSet::new));
        Broker a = fleet.broker(Fleet.A);
        Broker b = fleet.broker(Fleet.B);
        Expect.equal("the brokers that were told", new TreeSet<>(Set.of(a.address(), b.address())),
            told);
        double seconds = Expect.equalWithin(Expect.AT_ONCE_SECONDS, "the route",
            Route.of(new Route.Queues(3, 5, 6), a, b), () -> fleet.route(topic));
        return Step.after("the route", seconds);
    }

    private static String topicList(Fleet fleet) throws Exception {
        String topic = "made-for-topicList";
        fleet.makeTopic(topic, 1);
        List<String> topics = fleet.mqadmin("topicList").lines();
        // TBW102 is made by every broker, the two names are those of cluster and broker.
        for (String name : List.of(topic, "TBW102", Fleet.CLUSTER, Fleet.A, Fleet.B)) {
            Expect.that("the list of topics", "a list with " + name, topics.contains(name),
                topics);
        }
        Expect.equal("topics listed more than once", 0,
            topics.size() - new HashSet<>(topics).size());
        Expect.equal("the clusters of " + topic, List.of(Fleet.CLUSTER),
            fleet.mqadmin("topicClusterList", "-t", topic).lines());
        return topics.size() + " topics";
    }

    private static String topicRoute(Fleet fleet) throws Exception {
        Route both = fleet.makeTopic("on-both-brokers", 4);
        Route onlyB = fleet.makeTopicOn(fleet.broker(Fleet.B), "on-one-broker", 2);
        Expect.equal("the route", both, fleet.route("on-both-brokers"));
        Expect.equal("the route", onlyB, fleet.route("on-one-broker"));
        List<List<String>> table = fleet.mqadmin("topicRoute", "-t", "on-both-brokers", "-l")
            .rows();
        Expect.that("topicRoute -l", "a last row: Total: 2 brokers, 8 and 8 queues",
            table.get(table.size() - 1).equals(List.of("Total:", "2", "8", "8")), table);
        Expect.equal("the route of a missing topic", Route.NONE, fleet.route("never-made"));
        return "2 routes and a refusal";
    }

    private static String sendMessage(Fleet fleet) throws Exception {
        String topic = "made-for-sendMessage";
        fleet.makeTopic(topic, 4);
        List<String> row = fleet.send(topic, "hello", Fleet.B, 3);
        return "message " + row.get(3);
    }

    private static String consumeMessage(Fleet fleet) throws Exception {
        String topic = "made-for-consumeMessage";
        fleet.makeTopic(topic, 2);
        String id = fleet.send(topic, "hello-again", Fleet.A, 1).get(3);
        String pattern = "MSGID: (\\S+) .*TAGS=([^,}]*).*KEYS=([^,}]*).* BODY: (.*)";
        List<MatchResult> messages = Expect.within(Expect.AT_ONCE_SECONDS,
            "the messages of the topic", "one message",
            () -> fleet.mqadmin("consumeMessage", "-t", topic).matches(pattern),
            found -> !found.isEmpty());
        Expect.equal("messages", 1, messages.size());
        MatchResult message = messages.get(0);
        Expect.equal("id, tag, key and body", List.of(id, "tag-1", "key-1", "hello-again"),
            List.of(message.group(1), message.group(2), message.group(3), message.group(4)));
        return "message " + id;
    }

    private static String updateKvConfig(Fleet fleet) throws Exception {
        String key = "written-by-updateKvConfig";
        for (String value : List.of("broker-a:1", "broker-a:2;broker-b:3")) {
            putKv(fleet, fleet.server, key, value);
            Expect.equal("the value read back", value, getKv(fleet, fleet.server, key));
        }
        Answer deleted = fleet.mqadmin("deleteKvConfig", "-s", READABLE, "-k", key);
        Expect.equal("deleteKvConfig", List.of("delete kv config from namespace success."),
            deleted.lines());
        expectNoKv(fleet, key);
        return "2 values";
    }

    private static void putKv(Fleet fleet, NameServer server, String key, String value)
            throws Exception {
        Answer put = fleet.mqadminAt(server, "updateKvConfig", "-s", READABLE, "-k", key, "-v",
            value);
        Expect.equal("updateKvConfig", List.of("create or update kv config to namespace success."),
            put.lines());
    }

    /** The value of a key, or the refusal. */
    private static String getKv(Fleet fleet, NameServer server, String key) throws Exception {
        Answer answer = fleet.mqadminAt(server, "updateOrderConf", "-m", "get", "-t", key);
        return answer.matches("get orderConf success\\. topic=\\[.*\\], orderConf=\\[(.*)\\]")
            .stream().map(match -> match.group(1)).findFirst().orElse(answer.refusal());
    }

    private static void expectNoKv(Fleet fleet, String key) throws Exception {
        Expect.equal("the value after its deletion",
            "22 No config item, Namespace: " + READABLE + " Key: " + key,
            getKv(fleet, fleet.server, key));
    }

    private static String updateOrderConf(Fleet fleet) throws Exception {
        String topic = "ordered";
        String value = "broker-a:2;broker-b:2";
        Answer put = fleet.mqadmin("updateOrderConf", "-m", "put", "-t", topic, "-v", value);
        Expect.equal("updateOrderConf -m put", List.of("update orderConf success. topic=["
            + topic + "], orderConf=[" + value + "]"), put.lines());
        Expect.equal("the value read back", value, getKv(fleet, fleet.server, topic));
        Answer deleted = fleet.mqadmin("updateOrderConf", "-m", "delete", "-t", topic);
        Expect.equal("updateOrderConf -m delete",
            List.of("delete orderConf success. topic=[" + topic + "]"), deleted.lines());
        expectNoKv(fleet, topic);
        return "put, get, delete";
    }

    private static String getNamesrvConfig(Fleet fleet) throws Exception {
        Answer answer = fleet.mqadmin("getNamesrvConfig");
        Set<String> keys = answer.matches("(?m)^(\\w+) +=").stream().map(m -> m.group(1))
            .collect(Collectors.toCollection(TreeSet::new));
        for (String key : List.of("listenPort", "bindAddress", "rocketmqHome", "kvConfigPath",
                "configStorePath", "scanNotActiveBrokerInterval", "orderMessageEnable",
                "supportActingMaster", "defaultThreadPoolNums", "serverWorkerThreads")) {
            Expect.that("the settings", "settings with " + key, keys.contains(key), keys);
        }
        Expect.equal("listenPort", List.of(Integer.toString(fleet.server.port())),
            answer.matches("(?m)^listenPort += +(\\S+)").stream().map(m -> m.group(1)).toList());
        return keys.size() + " settings";
    }

    private static String wipeWritePerm(Fleet fleet) throws Exception {
        String topic = "made-for-wipeWritePerm";
        Route writable = fleet.makeTopic(topic, 4);
        String counted = topicsOf(fleet, Fleet.B);
        try {
            Expect.equal("topics wiped", counted, changePerm(fleet, "wipe", Fleet.B));
            Expect.equal("the route after it",
                writable.with(fleet.broker(Fleet.B), new Route.Queues(4, 4, 4)),
                fleet.route(topic));
            Expect.equal("topics wiped of an unknown broker", "0",
                changePerm(fleet, "wipe", "broker-nowhere"));
        } finally {
            changePerm(fleet, "add", Fleet.B); // the steps after this one need both brokers
        }
        return counted + " topics of " + Fleet.B;
    }

    private static String addWritePerm(Fleet fleet) throws Exception {
        String topic = "made-for-addWritePerm";
        Route writable = fleet.makeTopic(topic, 4);
        changePerm(fleet, "wipe", Fleet.A);
        Expect.equal("the route before it",
            writable.with(fleet.broker(Fleet.A), new Route.Queues(4, 4, 4)), fleet.route(topic));
        String counted = topicsOf(fleet, Fleet.A);
        Expect.equal("topics made writable", counted, changePerm(fleet, "add", Fleet.A));
        Expect.equal("the route after it", writable, fleet.route(topic));
        fleet.send(topic, "writable", Fleet.A, 0);
        return counted + " topics of " + Fleet.A;
    }

    /** How many of all topics have queues on a broker. */
    private static String topicsOf(Fleet fleet, String broker) throws Exception {
        int count = 0;
        for (String topic : fleet.mqadmin("topicList").lines()) {
            if (fleet.route(topic).queues().containsKey(broker)) count++;
        }
        return Integer.toString(count);
    }

    /** {@code which}: "wipe" or "add". Returns the number of topics that the server told. */
    private static String changePerm(Fleet fleet, String which, String broker) throws Exception {
        Answer answer = fleet.mqadmin(which + "WritePerm", "-b", broker);
        List<MatchResult> told = answer.matches(which + " write perm of broker\\[(.*)\\] in name "
            + "server\\[(.*)\\] OK, (\\d+)");
        Expect.that(answer.command(), "one line with OK", told.size() == 1, answer.text());
        Expect.equal("broker and server", List.of(broker, fleet.server.address()),
            List.of(told.get(0).group(1), told.get(0).group(2)));
        return told.get(0).group(3);
    }

    private static String deleteTopic(Fleet fleet) throws Exception {
        String topic = "made-for-deleteTopic";
        fleet.makeTopic(topic, 4);
        Answer answer = fleet.mqadmin("deleteTopic", "-c", Fleet.CLUSTER, "-t", topic);
        Expect.equal("deleteTopic", List.of(
            "delete topic [" + topic + "] from cluster [" + Fleet.CLUSTER + "] success.",
            "delete topic [" + topic + "] from NameServer success."), answer.lines());
        Expect.equal("the route after it", Route.NONE, fleet.route(topic));
        List<String> topics = fleet.mqadmin("topicList").lines();
        Expect.that("the list of topics", "a list without " + topic, !topics.contains(topic),
            topics);
        return "gone";
    }

    private static String roundTrip(Fleet fleet, String name, String... jvmOptions)
            throws Exception {
        String topic = "made-for-" + name;
        fleet.makeTopic(topic, 4);
        String result = fleet.roundTrip(JarSet.V5, name, topic, 100, jvmOptions);
        // The producer goes round the queues, four on each broker.
        Expect.equal("the messages", "sent=100 received=100 strangers=0 brokers="
            + "{" + Fleet.A + "=N, " + Fleet.B + "=N}",
            result.replaceAll("(broker-[ab])=[1-9]\\d*", "$1=N"));
        return result;
    }

    private static String compressedRegister(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(Fleet.COMPRESSING);
        // It is registered already: that is what the step needs to begin.
        fleet.makeTopicOn(broker, "on-the-compressing-broker", 2);
        fleet.send("on-the-compressing-broker", "hello", broker.name, 1);
        return broker.name + " has a route and takes messages";
    }

    private static String serverKillKeepsKv(Fleet fleet) throws Exception {
        NameServer server = fleet.anotherServer("killed-server");
        server.start();
        fleet.watch(server.program());
        int count = 10;
        for (int i = 0; i < count; i++) putKv(fleet, server, "kept-" + i, "broker-a:" + i);
        server.kill();
        server.start();
        fleet.watch(server.program());
        for (int i = 0; i < count; i++) {
            Expect.equal("the value of kept-" + i, "broker-a:" + i,
                getKv(fleet, server, "kept-" + i));
        }
        server.kill();
        return count + " values";
    }

    private static String serverStop(Fleet fleet) throws Exception {
        NameServer server = fleet.anotherServer("stopped-server");
        server.start();
        fleet.watch(server.program());
        Expect.equal("topics of an empty server", List.of(),
            fleet.mqadminAt(server, "topicList").lines());
        long start = System.nanoTime();
        // An open connection must neither delay the end for long nor spoil it.
        try (Socket idle = new Socket()) {
            idle.connect(new InetSocketAddress("127.0.0.1", server.port()));
            Expect.equal(EXIT_CODE, 0, server.stop());
        }
        return Step.after("exit 0", (System.nanoTime() - start) / 1e9);
    }

    private static String brokerKill(Fleet fleet) throws Exception {
        Broker killed = fleet.broker(Fleet.B);
        Broker left = fleet.broker(Fleet.A);
        fleet.makeTopicOn(killed, "only-on-the-killed-broker", 4);
        fleet.makeTopic("also-on-the-killed-broker", 4);
        killed.kill();
        double seconds = Expect.equalWithin(Expect.AT_ONCE_SECONDS,
            "the route of its topic after kill -9", Route.NONE,
            () -> fleet.route("only-on-the-killed-broker"));
        Expect.equal("the route of a topic that another broker has, too",
            Route.of(new Route.Queues(4, 4, 6), left), fleet.route("also-on-the-killed-broker"));
        List<Fleet.Member> members = fleet.members();
        Expect.that("the cluster table", "no row of " + killed.name,
            members.stream().noneMatch(member -> member.name().equals(killed.name)), members);
        return Step.after("no route", seconds);
    }

    private static String serverRestart(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(Fleet.A);
        String topic = "through-a-restart";
        Route before = fleet.makeTopicOn(broker, topic, 4);
        fleet.server.stop();
        fleet.server.start();
        double seconds = Expect.equalWithin(Expect.ONE_HEARTBEAT_SECONDS,
            "the route after the restart of the server", before, () -> fleet.route(topic));
        fleet.send(topic, "after the restart", broker.name, 2);
        return Step.after("the route", seconds) + ", one heartbeat being "
            + Broker.HEARTBEAT_SECONDS;
    }

    private static String brokerStop(Fleet fleet) throws Exception {
        Broker stopped = fleet.broker(Fleet.A);
        fleet.makeTopicOn(stopped, "only-on-the-stopped-broker", 4);
        stopped.terminate();
        // It says so before it has ended, which takes some ten seconds.
        double seconds = Expect.equalWithin(Expect.AT_ONCE_SECONDS,
            "the route of its topic after SIGTERM", Route.NONE,
            () -> fleet.route("only-on-the-stopped-broker"));
        return Step.after("no route", seconds)
            + (stopped.program().alive() ? ", the broker still ending" : "");
    }

    private static String tls(Fleet fleet) throws Exception {
        Tls tls = Tls.make(fleet.setup.runFolder.resolve("tls"));
        String broker = "broker-t";
        Fleet secure = fleet.secure(tls).with(Broker.Plan.of(broker).withJvm(tls.ofBroker()));
        try {
            secure.startAll();
            Route route = secure.makeTopicOn(secure.broker(broker), "made-by-tls", 4);
            List<JarSet> clients = List.of(JarSet.V5, JarSet.V4, JarSet.V43);
            for (JarSet set : clients) {
                String topic = "made-for-tls-" + set.folder.replace('.', '-');
                secure.makeTopicOn(secure.broker(broker), topic, 4);
                Expect.equal("the result of client " + set.folder,
                    "sent=100 received=100 strangers=0 brokers={" + broker + "=100}",
                    secure.roundTrip(set, "client-tls-" + set.folder, topic, 100, tls.ofClient()));
            }
            Answer plain = fleet.mqadminAt(secure.server, "topicRoute", "-t", "made-by-tls");
            Expect.that("topicRoute without TLS", "no route", !plain.text().contains("brokerDatas"),
                plain.text());
            Expect.equal("the route", route, secure.route("made-by-tls"));
            return "100 messages by each of " + clients.size() + " clients, no plaintext";
        } finally {
            secure.endWithin(fleet);
        }
    }
}
