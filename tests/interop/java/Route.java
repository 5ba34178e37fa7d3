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

    /** The same queues on each of some masters. */
    static Route of(Queues queues, Broker... masters) {
        Route route = new Route(new TreeMap<>(), new TreeMap<>());
        for (Broker master : masters) {
            route.members.put(master.name, master.cluster + " {0=" + master.address() + "}");
            route.queues.put(master.name, queues);
        }
        return route;
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
        if (!answer.refusal().equals("none")) {
            Expect.equal("the refusal of a topic without route",
                "17 No topic route info in name server for the topic: " + topic,
                answer.refusal());
            return NONE;
        }
        Expect.that(answer.command(), "a route", answer.text().startsWith("{"), answer.text());
        TopicRouteData data = RemotingSerializable.fromJson(answer.text(), TopicRouteData.class);
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
