import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A user's program: sends messages to a topic and receives them with a push consumer. Made with
 * the clients of 4.3.2, 4.9.7 and 5.5.0.
 *
 * <p>Arguments: name server, topic, count, seconds to wait for the last message. Prints one line,
 * {@code sent=N received=N strangers=N brokers={name=N, ...}}, and exits 0 unless it threw.
 *
 * <p>System properties: {@code unit} and {@code namespace} are those of the client. With
 * {@code keys=N} the messages have N keys; those of a key go to one queue, and {@code misordered=N}
 * counts those that came before an earlier one of their key.
 */
final class RoundTrip {
    private static final String BODY = "message ";
    private static final int KEYS = Integer.getInteger("keys", 0);

    /** What became of the messages. */
    private final Set<String> sent = new HashSet<>();
    private final Map<String, Integer> brokers = new TreeMap<>();
    private final Set<String> received = ConcurrentHashMap.newKeySet();
    private final AtomicInteger strangers = new AtomicInteger();
    private final AtomicInteger misordered = new AtomicInteger();
    /** The latest message of each key. */
    private final Map<Integer, Integer> latest = new ConcurrentHashMap<>();
    private CountDownLatch missing;

    public static void main(String[] arguments) {
        int exit = 0;
        try {
            RoundTrip trip = new RoundTrip();
            trip.send(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
            trip.receive(arguments[0], arguments[1], Integer.parseInt(arguments[3]));
            System.out.println(trip);
        } catch (Exception e) {
            e.printStackTrace();
            exit = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(exit); // client threads keep the JVM after an exception
    }

    private static void configure(ClientConfig client, String nameServer)
            throws ReflectiveOperationException {
        client.setNamesrvAddr(nameServer);
        client.setUnitName(System.getProperty("unit"));
        String namespace = System.getProperty("namespace");
        if (namespace == null) return;
        // Release 4.3.2 has none.
        ClientConfig.class.getMethod("setNamespace", String.class).invoke(client, namespace);
    }

    private void send(String nameServer, String topic, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producer-of-" + topic);
        configure(producer, nameServer);
        producer.setSendMsgTimeout(20_000); // of a busy machine
        producer.start();
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, (BODY + i).getBytes(StandardCharsets.UTF_8));
            SendResult result = i == 0 ? sendFirst(producer, message) : send(producer, message, i);
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("not stored: " + result);
            }
            sent.add(result.getMsgId() + " " + BODY + i);
            brokers.merge(result.getMessageQueue().getBrokerName(), 1, Integer::sum);
        }
        producer.shutdown();
    }

    private static SendResult send(DefaultMQProducer producer, Message message, int number)
            throws Exception {
        if (KEYS == 0) return producer.send(message);
        return producer.send(message,
            (queues, same, key) -> queues.get((Integer) key % queues.size()), number % KEYS);
    }

    /** Client 5.5.0: its first send throws when asking for the route takes it over a second. */
    private static SendResult sendFirst(DefaultMQProducer producer, Message message)
            throws Exception {
        for (int failed = 0;; failed++) {
            try {
                return send(producer, message, 0);
            } catch (IllegalStateException e) {
                if (failed == 3) throw e;
            }
        }
    }

    private void receive(String nameServer, String topic, int seconds) throws Exception {
        missing = new CountDownLatch(sent.size());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("consumer-of-" + topic);
        configure(consumer, nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        if (KEYS == 0) {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(this::take);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(this::take);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        }
        consumer.start();
        missing.await(seconds, TimeUnit.SECONDS);
        consumer.shutdown();
    }

    private void take(MessageExt message) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        String seen = message.getMsgId() + " " + body;
        if (!sent.contains(seen)) {
            strangers.incrementAndGet();
            return;
        }
        if (KEYS > 0) {
            int number = Integer.parseInt(body.substring(BODY.length()));
            Integer before = latest.put(number % KEYS, number);
            if (before != null && before > number) misordered.incrementAndGet();
        }
        if (received.add(seen)) missing.countDown();
    }

    @Override public String toString() {
        return "sent=" + sent.size() + " received=" + received.size() + " strangers=" + strangers
            + " brokers=" + brokers + (KEYS > 0 ? " misordered=" + misordered : "");
    }
}
