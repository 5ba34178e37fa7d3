import java.io.IOException;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody;

/** What a broker's request 103 says. */
final class Registration {
    static final int CODE = 103;

    private Registration() { }

    static RegisterBrokerBody body(Tap.Request request) {
        try {
            return RegisterBrokerBody.decode(request.command().getBody(),
                request.field("compressed").equals("true"), MQVersion.Version.V5_5_0);
        } catch (IOException e) {
            throw new Mismatch("the body of a registration", "one that decodes", e);
        }
    }

    static Set<String> topics(Tap.Request request) {
        return new TreeSet<>(body(request).getTopicConfigSerializeWrapper()
            .getTopicConfigTable().keySet());
    }

    /** Whether it has all topics of its broker, rather than one that has changed. */
    static boolean isTurn(Tap.Request request) {
        return request.code() == CODE && topics(request).size() > 1;
    }

    /** Waits for a tapped broker's next turn; forgets what the tap has noted before. */
    static void awaitTurn(Broker broker) throws Exception {
        broker.tap().clear();
        Expect.within(1.5 * Broker.HEARTBEAT_SECONDS, "a turn of " + broker.name,
            "a registration of all topics, answered 0",
            () -> broker.tap().requests(CODE),
            seen -> seen.stream().anyMatch(r -> isTurn(r) && r.answered(0)));
    }

    /** Waits until no turn of a tapped broker is near. */
    static void awaitQuiet(Broker broker) throws Exception {
        double soon = Broker.HEARTBEAT_SECONDS - 2;
        Expect.within(1.5 * Broker.HEARTBEAT_SECONDS, "seconds since the turn of " + broker.name,
            "between 0.2 and " + soon, () -> broker.tap().requests(Registration::isTurn).stream()
                .mapToDouble(request -> (System.nanoTime() - request.at()) / 1e9).min()
                .orElse(Double.MAX_VALUE),
            age -> age > 0.2 && age < soon);
    }
}
