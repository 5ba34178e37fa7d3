import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Brokers whose settings change how they register, and what the server makes of it. */
final class RegistrationSteps {
    private static final String PLAIN = "plain";
    private static final String OLD = "old";
    private static final String OLD_COMPRESSING = "old-compressing";
    private static final String ON_CHANGE = "on-change";
    private static final String SINGLE = "single-topic";
    private static final String SPLIT = "split";
    private static final int SPLIT_SIZE = 5;
    private static final String KNOWN_EARLY = "whether the server knows a broker before its turn";

    private static final Fleet.Plan FLEET = new Fleet.Plan("registration-server", List.of(),
        List.of(
            Broker.Plan.of(PLAIN).withTap(),
            Broker.Plan.of(OLD).of(JarSet.V4).in("OldCluster"),
            Broker.Plan.of(OLD_COMPRESSING).of(JarSet.V4).in("OldCluster").withTap()
                .with("compressedRegister=true"),
            Broker.Plan.of(ON_CHANGE).withTap().with("forceRegister=false"),
            Broker.Plan.of(SINGLE).withTap().with("enableSingleTopicRegister=true"),
            Broker.Plan.of(SPLIT).withTap()
                .with("enableSplitRegistration=true", "splitRegistrationSize=" + SPLIT_SIZE)));

    private static final int DELETE_TOPIC = 216;
    private static final int REGISTER_TOPIC = 217;
    private static final int ASK_IF_CHANGED = 322;
    /** The age at which a silent broker is dropped; the longest time between two looks. */
    private static final double EXPIRY_SECONDS = 120;
    private static final double SCAN_SECONDS = 5;

    static final List<Step> ALL = List.of(
        new Step("old-broker", "a broker of 4.9.7 serves client 5.5.0; mqadmin 4.9.7 reads routes",
            FLEET, List.of(OLD), RegistrationSteps::oldBroker).thatNeeds(JarSet.V4),
        new Step("old-compressed", "a broker of 4.9.7 with compressedRegister=true registers",
            FLEET, List.of(OLD_COMPRESSING), RegistrationSteps::oldCompressed)
            .thatNeeds(JarSet.V4),
        new Step("single-topic", "enableSingleTopicRegister=true: a new topic is told by 217",
            FLEET, List.of(SINGLE), RegistrationSteps::singleTopic),
        new Step("split", "enableSplitRegistration=true: the parts of a registration add up",
            FLEET, List.of(SPLIT), RegistrationSteps::split),
        new Step("register-on-change", "forceRegister=false: asks (322), registers on change only",
            FLEET, List.of(ON_CHANGE), RegistrationSteps::registerOnChange),
        new Step("deleted-at-server", "216 for a topic that its broker keeps: gone until its turn",
            FLEET, List.of(PLAIN), RegistrationSteps::deletedAtServer),
        new Step("topic-before-broker", "a topic told to a restarted server before its broker is "
            + "leaves no trace", FLEET, List.of(PLAIN, ON_CHANGE),
            RegistrationSteps::topicBeforeBroker)
            .thatDiffers("keeps a broker without an address", KNOWN_EARLY),
        new Step("second-server", "a broker registers with the living one of two servers, and with "
            + "the other as soon as that one is there and collects brokers", List.of(),
            RegistrationSteps::secondServer).thatControlsServers(),
        new Step("frozen-broker", "a broker that stands still is gone after 120 s, and then back",
            FLEET, List.of(PLAIN), RegistrationSteps::frozenBroker)
            .thatIsSlow("two minutes"));

    private RegistrationSteps() { }

    private static String oldBroker(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(OLD);
        expectVersion(fleet, broker, "V4_9_7");
        String topic = "on-the-old-broker";
        Route route = fleet.makeTopicOn(broker, topic, 4);
        Mqadmin old = new Mqadmin(fleet.setup, "mqadmin-4.9.7", JarSet.V4);
        old.start();
        fleet.watch(old.program());
        try {
            Expect.equal("the route that mqadmin 4.9.7 reads", route,
                Route.read(topic, old.run(fleet.server.address(), "topicRoute", "-t", topic)));
            Expect.equal("a missing topic's that mqadmin 4.9.7 reads", Route.NONE,
                Route.read("never-made",
                    old.run(fleet.server.address(), "topicRoute", "-t", "never-made")));
        } finally {
            old.program().kill();
        }
        return expectRoundTrip(fleet, broker, topic);
    }

    private static void expectVersion(Fleet fleet, Broker broker, String version)
            throws Exception {
        // mqadmin asks the broker, and leaves the version out if that is slow to answer.
        Expect.equalWithin(Expect.PATIENCE_SECONDS, "the version of " + broker.name,
            List.of(version), () -> fleet.mqadmin("clusterList", "-c", broker.cluster).rows()
                .stream().filter(row -> row.size() > 4 && row.get(1).equals(broker.name))
                .map(row -> row.get(4)).toList());
    }

    private static String expectRoundTrip(Fleet fleet, Broker broker, String topic)
            throws Exception {
        String result = fleet.roundTrip(JarSet.V5, "client-of-" + broker.name, topic, 100);
        Expect.equal("the client's result",
            "sent=100 received=100 strangers=0 brokers={" + broker.name + "=100}", result);
        return result;
    }

    private static String oldCompressed(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(OLD_COMPRESSING);
        List<Tap.Request> all = broker.tap().requests(Registration.CODE);
        Expect.that("its registrations", "some with compressed=true",
            all.stream().anyMatch(r -> r.field("compressed").equals("true")), all);
        expectAnswered(all.stream().filter(r -> r.answer() != null).toList());
        String topic = "on-the-old-compressing-broker";
        fleet.makeTopicOn(broker, topic, 4);
        fleet.send(topic, "hello", broker.name, 3);
        return all.size() + " registrations";
    }

    /** All are answered with code 0. */
    private static void expectAnswered(List<Tap.Request> requests) {
        Expect.that("the requests", "all answered 0",
            requests.stream().allMatch(r -> r.answered(0)), requests);
    }

    /** Waits until the server has answered so many requests of a code, and returns those. */
    private static List<Tap.Request> awaitAnswered(Broker broker, int code, int count,
            double seconds) throws Exception {
        return Expect.within(seconds, "answered requests " + code + " of " + broker.name,
            "at least " + count,
            () -> broker.tap().requests(r -> r.code() == code && r.answer() != null),
            answered -> answered.size() >= count);
    }

    private static String singleTopic(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(SINGLE);
        broker.tap().clear();
        String topic = "made-for-single-topic";
        fleet.makeTopicOn(broker, topic, 3);
        List<Tap.Request> told = awaitAnswered(broker, REGISTER_TOPIC, 1, Expect.AT_ONCE_SECONDS);
        expectAnswered(told);
        Expect.equal("the topics told by 217", List.of(topic),
            told.stream().map(r -> r.field("topic")).distinct().toList());
        Expect.equal("registrations with that topic alone", List.of(),
            broker.tap().requests(Registration.CODE).stream()
                .filter(r -> Registration.topics(r).equals(Set.of(topic))).toList());
        fleet.send(topic, "hello", broker.name, 2);
        return "a route by " + told.size() + " request 217";
    }

    private static String split(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(SPLIT);
        // A whole period: it begins and ends between two registrations, which take milliseconds.
        broker.tap().clear();
        awaitAnswered(broker, Registration.CODE, 2, 1.5 * Broker.HEARTBEAT_SECONDS);
        List<Tap.Request> parts = Expect.within(Expect.AT_ONCE_SECONDS, "a turn of registrations",
            "all answered", () -> broker.tap().requests(Registration.CODE),
            seen -> seen.stream().allMatch(r -> r.answer() != null));
        expectAnswered(parts);
        Set<String> topics = new HashSet<>();
        Set<String> versions = new HashSet<>();
        for (Tap.Request part : parts) {
            Set<String> some = Registration.topics(part);
            Expect.that("topics of a part", "at most " + SPLIT_SIZE, some.size() <= SPLIT_SIZE,
                some);
            topics.addAll(some);
            versions.add(Registration.body(part).getTopicConfigSerializeWrapper()
                .getDataVersion().toJson());
        }
        Expect.equal("different data versions of the parts", 1, versions.size());
        Expect.that("topics of all parts", "more than " + SPLIT_SIZE, topics.size() > SPLIT_SIZE,
            topics);
        for (String topic : topics) {
            Expect.that("the route of " + topic, "one with " + broker.name,
                fleet.route(topic).queues().containsKey(broker.name), fleet.route(topic));
        }
        fleet.makeTopicOn(broker, "made-for-split", 4);
        fleet.send("made-for-split", "hello", broker.name, 3);
        return topics.size() + " topics in " + parts.size() + " parts";
    }

    private static String registerOnChange(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(ON_CHANGE);
        String first = "before-the-change";
        fleet.makeTopicOn(broker, first, 2);
        // The turn after that change may still register.
        broker.tap().clear();
        awaitAnswered(broker, ASK_IF_CHANGED, 1, 1.5 * Broker.HEARTBEAT_SECONDS);
        broker.tap().clear();
        expectAnswered(awaitAnswered(broker, ASK_IF_CHANGED, 1, 1.5 * Broker.HEARTBEAT_SECONDS));
        Expect.equal("registrations without a change", List.of(),
            broker.tap().requests(Registration.CODE));
        fleet.makeTopicOn(broker, "after-the-change", 2);
        expectAnswered(awaitAnswered(broker, Registration.CODE, 1, Expect.AT_ONCE_SECONDS));
        Expect.that("the route of " + first, "still there",
            fleet.route(first).queues().containsKey(broker.name), fleet.route(first));
        return "no registration in a turn, one with the change";
    }

    private static String deletedAtServer(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(PLAIN);
        String topic = "deleted-at-server";
        Route before = fleet.makeTopicOn(broker, topic, 4);
        Registration.awaitTurn(broker); // so that there is time until the next one
        Expect.equal("the code that answers 216", 0,
            Ask.ask(fleet.server, DELETE_TOPIC, Map.of("topic", topic)).getCode());
        Expect.equal("the route after 216", Route.NONE, fleet.route(topic));
        fleet.makeTopicOn(broker, "another-change", 1);
        Expect.equal("the route after another topic's change", Route.NONE, fleet.route(topic));
        Registration.awaitTurn(broker);
        Expect.equalWithin(Expect.AT_ONCE_SECONDS, "the route after the broker's next turn",
            before, () -> fleet.route(topic));
        return "no route for a turn";
    }

    private static String topicBeforeBroker(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(PLAIN);
        Broker asking = fleet.broker(ON_CHANGE);
        String known = "known-before-the-restart";
        Route knownRoute = fleet.makeTopicOn(asking, known, 2);
        // The broker's turn may come first; then the restart is tried again.
        for (int i = 1; i <= 5; i++) {
            String topic = "told-early-" + i;
            broker.tap().clear();
            fleet.server.stop();
            fleet.server.start();
            List<Tap.Request> seen = awaitTold(fleet, broker, topic);
            if (seen.stream().anyMatch(r -> r.answered(0))) continue;
            Expect.equal(KNOWN_EARLY, false,
                Ask.addresses(fleet.server).containsKey(broker.name));
            Expect.equal("the route before it", Route.NONE, fleet.route(topic));
            Registration.awaitTurn(broker);
            double seconds = Expect.equalWithin(Expect.AT_ONCE_SECONDS, "the route after it",
                Route.of(new Route.Queues(4, 4, 6), broker), () -> fleet.route(topic));
            Expect.equalWithin(Expect.ONE_HEARTBEAT_SECONDS,
                "the route of the broker with forceRegister=false", knownRoute,
                () -> fleet.route(known));
            return Step.after("refused, no trace; its route", seconds);
        }
        throw new Mismatch("a restart with a topic told before the turn of " + broker.name,
            "one in five tries", "none");
    }

    /** Makes a topic until the broker has told the server about it; returns what it said. */
    private static List<Tap.Request> awaitTold(Fleet fleet, Broker broker, String topic)
            throws Exception {
        return Expect.within(Expect.ONE_HEARTBEAT_SECONDS, "registrations after a topic was made",
            "an answered one", () -> {
                fleet.tellTopic(broker, topic, 4);
                return broker.tap().requests(Registration.CODE);
            }, seen -> seen.stream().anyMatch(r -> r.answer() != null));
    }

    private static String secondServer(Fleet fleet) throws Exception {
        int waitSeconds = 2 * Broker.HEARTBEAT_SECONDS;
        Fleet own = fleet.another("first-server");
        NameServer second = own.anotherServer("second-server", "needWaitForService=true",
            "waitSecondsForService=" + waitSeconds);
        Broker.Plan plan = Broker.Plan.of("two-servers")
            .with("namesrvAddr=" + second.address() + ";{server}");
        Broker broker = own.with(plan).broker(plan.label());
        try {
            own.startAll();
            Route route = own.makeTopicOn(broker, "on-two-servers", 4);
            second.start();
            own.watch(second.program());
            long start = System.nanoTime();
            double found = Expect.equalWithin(Expect.ONE_HEARTBEAT_SECONDS,
                "the brokers of the second server",
                Map.of(broker.name, Map.of(0L, broker.address())), () -> Ask.addresses(second));
            Answer early = own.mqadminAt(second, "topicRoute", "-t", "on-two-servers");
            Expect.that("topicRoute while the second server waits", "a refusal with code 1",
                early.refusal().startsWith("1 "), early.text());
            Expect.within(waitSeconds + Expect.AT_ONCE_SECONDS, "topicRoute after the wait",
                "an answer", () -> own.mqadminAt(second, "topicRoute", "-t", "on-two-servers"),
                answer -> answer.refusal().equals("none"));
            double served = (System.nanoTime() - start) / 1e9;
            Expect.equal("the route at the second server", route, Route.read("on-two-servers",
                own.mqadminAt(second, "topicRoute", "-t", "on-two-servers")));
            return Step.after("registered", found) + ", " + Step.after("routes", served);
        } finally {
            own.endWithin(fleet);
        }
    }

    private static String frozenBroker(Fleet fleet) throws Exception {
        Broker broker = fleet.broker(PLAIN);
        String topic = "on-the-frozen-broker";
        Route route = fleet.makeTopicOn(broker, topic, 4);
        Registration.awaitTurn(broker);
        broker.program().freeze();
        double gone;
        try {
            gone = Expect.equalWithin(EXPIRY_SECONDS + SCAN_SECONDS + Expect.AT_ONCE_SECONDS,
                "the route of a broker that stands still", Route.NONE, () -> fleet.route(topic));
        } finally {
            broker.program().thaw();
        }
        Expect.that("seconds until the route was gone", "at least " + (EXPIRY_SECONDS - 1),
            gone >= EXPIRY_SECONDS - 1, gone);
        double back = Expect.equalWithin(Expect.ONE_HEARTBEAT_SECONDS, "the route after SIGCONT",
            route, () -> fleet.route(topic));
        return Step.after("gone", gone) + ", " + Step.after("back", back);
    }
}
