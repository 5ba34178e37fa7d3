import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.remoting.protocol.statictopic.TopicQueueMappingInfo;

/** Topics with queues numbered across brokers; their numbers are in the route as a mapping. */
final class StaticTopicSteps {
    private static final String A = "static-a";
    private static final String B = "static-b";
    private static final List<String> BOTH = List.of(A, B);
    private static final Fleet.Plan FLEET = new Fleet.Plan("static-server", List.of(),
        List.of(Broker.Plan.of(A).withTap(), Broker.Plan.of(B).withTap()));
    private static final int QUEUES = 8;
    private static final String MADE_AGAIN = "the mapping of a topic made again";
    private static final String AFTER_KILL = "the mapping after kill -9 of a broker";

    static final List<Step> ALL = List.of(
        new Step("static-topic", "a static topic's route has the mapping of all its queues",
            FLEET, BOTH, StaticTopicSteps::staticTopic),
        new Step("static-remapping", "queues that move to another broker move in the mapping",
            FLEET, BOTH, StaticTopicSteps::staticRemapping),
        new Step("static-deleted", "a topic made again under a static topic's name has no mapping",
            FLEET, BOTH, StaticTopicSteps::staticDeleted)
            .thatDiffers("keeps the mapping of a deleted topic", MADE_AGAIN),
        new Step("static-broker-kill", "a broker that is gone takes its mapping along",
            FLEET, BOTH, StaticTopicSteps::staticBrokerKill)
            .thatDiffers("keeps the mapping of a broker that is gone", AFTER_KILL));

    private StaticTopicSteps() { }

    /** Makes a static topic on both brokers, and waits for the mapping of all its queues. */
    private static Map<String, Set<Integer>> make(Fleet fleet, String topic) throws Exception {
        // A turn in between has the topic without its mapping, with the data version of what
        // follows: a server that skips known versions then never takes the mapping.
        for (String broker : BOTH) Registration.awaitQuiet(fleet.broker(broker));
        Answer answer = fleet.mqadmin("updateStaticTopic", "-t", topic, "-c", Fleet.CLUSTER,
            "-qn", Integer.toString(QUEUES));
        Expect.that(answer.command(), "two files written", answer.matches(
            "The (old|new) mapping data is written to file").size() == 2, answer.text());
        return Expect.within(Expect.AT_ONCE_SECONDS, "the mapping of " + topic,
            "half of the queues on each broker", () -> mapping(fleet, topic),
            seen -> allOf(seen).size() == QUEUES && seen.keySet().equals(Set.copyOf(BOTH))
                && seen.values().stream().allMatch(ids -> ids.size() == QUEUES / 2));
    }

    /** The numbers of the queues that each broker has, by the route; empty without a mapping. */
    private static Map<String, Set<Integer>> mapping(Fleet fleet, String topic) throws Exception {
        TopicRouteData data =
            Route.decode(topic, fleet.mqadmin("topicRoute", "-t", topic));
        Map<String, Set<Integer>> ids = new TreeMap<>();
        if (data == null || data.getTopicQueueMappingByBroker() == null) return ids;
        for (TopicQueueMappingInfo info : data.getTopicQueueMappingByBroker().values()) {
            Expect.equal("topic, number of queues and scope of the mapping",
                List.of(topic, QUEUES, "__global__"),
                List.of(info.getTopic(), info.getTotalQueues(), info.getScope()));
            ids.put(info.getBname(), new TreeSet<>(info.getCurrIdMap().keySet()));
        }
        return ids;
    }

    private static Set<Integer> allOf(Map<String, Set<Integer>> mapping) {
        Set<Integer> all = new HashSet<>();
        mapping.values().forEach(all::addAll);
        return all;
    }

    private static String staticTopic(Fleet fleet) throws Exception {
        String topic = "made-static";
        Map<String, Set<Integer>> mapping = make(fleet, topic);
        Expect.equal("the route", Route.of(new Route.Queues(QUEUES / 2, QUEUES / 2, 6),
            fleet.broker(A), fleet.broker(B)), fleet.route(topic));
        // The producer goes round all queues of both brokers.
        Expect.equal("the client's result", "sent=100 received=100 strangers=0 brokers="
            + "{" + A + "=N, " + B + "=N}",
            fleet.roundTrip(JarSet.V5, "client-static", topic, 100)
                .replaceAll("(static-[ab])=[1-9]\\d*", "$1=N"));
        return mapping.toString();
    }

    private static String staticRemapping(Fleet fleet) throws Exception {
        String topic = "made-for-remapping";
        make(fleet, topic);
        fleet.mqadmin("remappingStaticTopic", "-t", topic, "-b", B);
        Set<Integer> all = Set.of(0, 1, 2, 3, 4, 5, 6, 7);
        double seconds = Expect.equalWithin(Expect.ONE_HEARTBEAT_SECONDS,
            "the mapping after the move", Map.of(A, Set.of(), B, all),
            () -> mapping(fleet, topic));
        return Step.after("all queues on " + B, seconds);
    }

    private static String staticDeleted(Fleet fleet) throws Exception {
        String topic = "made-static-and-deleted";
        make(fleet, topic);
        fleet.mqadmin("deleteTopic", "-c", Fleet.CLUSTER, "-t", topic);
        Expect.equalWithin(Expect.AT_ONCE_SECONDS, "the route after deleteTopic", Route.NONE,
            () -> fleet.route(topic));
        fleet.makeTopicOn(fleet.broker(A), topic, 4);
        Expect.equal(MADE_AGAIN, Map.of(), mapping(fleet, topic));
        return "no mapping";
    }

    private static String staticBrokerKill(Fleet fleet) throws Exception {
        String topic = "made-static-on-the-killed-broker";
        Map<String, Set<Integer>> left = new TreeMap<>(make(fleet, topic));
        fleet.broker(B).kill();
        left.remove(B);
        double seconds = Expect.equalWithin(Expect.AT_ONCE_SECONDS, AFTER_KILL, left,
            () -> mapping(fleet, topic));
        Expect.equal("the route", Route.of(new Route.Queues(QUEUES / 2, QUEUES / 2, 6),
            fleet.broker(A)), fleet.route(topic));
        return Step.after("left " + left, seconds);
    }
}
