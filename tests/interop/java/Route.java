import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/**
 * A topic's route as the real client reads it, in a form that compares and prints well.
 *
 * @param members broker name to "cluster {id=address}"
 * @param queues broker name to its queues
 */
record Route(Map<String, String> members, Map<String, Queues> queues) {
    /** One broker's queues; {@code perm}: 6 read and write, 4 read. */
    record Queues(int read, int write, int perm) {
        @Override public String toString() {
            return "read " + read + ", write " + write + ", perm " + perm;
        }
    }

    /** No broker has the topic. */
    static final Route NONE = new Route(Map.of(), Map.of());

    /** The same queues on each of some brokers, members of groups among them. */
    static Route of(Queues queues, Broker... brokers) {
        Map<String, Map<Long, String>> addresses = new TreeMap<>();
        for (Broker broker : brokers) {
            addresses.computeIfAbsent(broker.name, name -> new TreeMap<>())
                .put(broker.plan.id(), broker.address());
        }
        Route route = new Route(new TreeMap<>(), new TreeMap<>());
        for (Broker broker : brokers) {
            route.members.put(broker.name, broker.cluster + " " + addresses.get(broker.name));
            route.queues.put(broker.name, queues);
        }
        return route;
    }

    /** The queues of a group whose only address, that of this broker, is shown as the master's. */
    static Route inPlaceOfMaster(Queues queues, Broker broker) {
        return new Route(Map.of(broker.name, broker.cluster + " {0=" + broker.address() + "}"),
            Map.of(broker.name, queues));
    }

    /** This route with other queues on one broker. */
    Route with(Broker broker, Queues other) {
        Route route = new Route(members, new TreeMap<>(queues));
        route.queues.put(broker.name, other);
        return route;
    }

    /**
     * Reads what {@code mqadmin topicRoute} printed. The server's refusal must be that of a
     * missing topic, in the server's words; anything else that is no route is a mismatch.
     */
    static Route read(String topic, Answer answer) {
        TopicRouteData data = decode(topic, answer);
        return data == null ? NONE : read(answer, data);
    }

    /** The whole of it, or null if there is no such topic. */
    static TopicRouteData decode(String topic, Answer answer) {
        if (!answer.refusal().equals("none")) {
            Expect.equal("the refusal of a topic without route",
                "17 No topic route info in name server for the topic: " + topic,
                answer.refusal());
            return null;
        }
        Expect.that(answer.command(), "a route", answer.text().startsWith("{"), answer.text());
        return RemotingSerializable.fromJson(answer.text(), TopicRouteData.class);
    }

    private static Route read(Answer answer, TopicRouteData data) {
        Route route = new Route(new TreeMap<>(), new TreeMap<>());
        for (BrokerData broker : data.getBrokerDatas()) {
            String member = broker.getCluster() + " " + new TreeMap<>(broker.getBrokerAddrs());
            String twice = route.members.put(broker.getBrokerName(), member);
            Expect.that(answer.command(), "each broker once", twice == null, answer.text());
        }
        for (QueueData queue : data.getQueueDatas()) {
            Queues read = new Queues(queue.getReadQueueNums(), queue.getWriteQueueNums(),
                queue.getPerm());
            Queues twice = route.queues.put(queue.getBrokerName(), read);
            Expect.that(answer.command(), "each broker once", twice == null, answer.text());
        }
        return route;
    }

    @Override public String toString() {
        return this.equals(NONE) ? "no route" : members + " " + queues;
    }
}
