import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * A user's program with the gRPC client: sends messages through a proxy, and receives them.
 *
 * <p>Arguments: proxy, topic, count, seconds to wait for the last message; topic and consumer
 * group must exist. Prints one line, {@code sent=N received=N strangers=N}, and exits 0 unless it
 * threw.
 */
final class GrpcRoundTrip {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int BATCH = 32;
    private static final Duration INVISIBLE = Duration.ofSeconds(30);
    /** The shortest long poll that the proxy accepts. */
    private static final Duration POLL = Duration.ofSeconds(5);

    public static void main(String[] arguments) {
        int exit = 0;
        try {
            // The client's default is TLS.
            ClientConfiguration proxy = ClientConfiguration.newBuilder()
                .setEndpoints(arguments[0]).enableSsl(false).build();
            Set<String> sent = send(proxy, arguments[1], Integer.parseInt(arguments[2]));
            receive(proxy, arguments[1], sent, Integer.parseInt(arguments[3]));
        } catch (Exception e) {
            e.printStackTrace();
            exit = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(exit); // closing the clients would take seconds
    }

    /** Returns "id body" of every message. */
    private static Set<String> send(ClientConfiguration proxy, String topic, int count)
            throws ClientException {
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(proxy)
            .setTopics(topic).build();
        Set<String> sent = new HashSet<>();
        for (int i = 0; i < count; i++) {
            String body = "message " + i;
            var message = PROVIDER.newMessageBuilder().setTopic(topic)
                .setBody(body.getBytes(StandardCharsets.UTF_8)).build();
            sent.add(producer.send(message).getMessageId() + " " + body);
        }
        return sent;
    }

    private static void receive(ClientConfiguration proxy, String topic, Set<String> sent,
            int seconds) throws ClientException {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(proxy).setConsumerGroup("consumer-of-" + topic)
            .setAwaitDuration(POLL)
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
        Set<String> received = new HashSet<>();
        int strangers = 0;
        long end = System.nanoTime() + Duration.ofSeconds(seconds).toNanos();
        while (received.size() < sent.size() && System.nanoTime() < end) {
            for (MessageView message : consumer.receive(BATCH, INVISIBLE)) {
                String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
                String seen = message.getMessageId() + " " + body;
                if (sent.contains(seen)) received.add(seen);
                else strangers++;
                consumer.ack(message);
            }
        }
        System.out.println("sent=" + sent.size() + " received=" + received.size()
            + " strangers=" + strangers);
    }
}
