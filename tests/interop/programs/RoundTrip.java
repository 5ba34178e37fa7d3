import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A user's program: sends messages to a topic and receives them with a push consumer.
 *
 * <p>Arguments: name server, topic, count, seconds to wait for the last message. Prints one line,
 * {@code sent=N received=N strangers=N brokers={name=N, ...}}, and exits 0 unless it threw.
 */
final class RoundTrip {
    public static void main(String[] arguments) {
        int exit = 0;
        try {
            run(arguments[0], arguments[1], Integer.parseInt(arguments[2]),
                Integer.parseInt(arguments[3]));
        } catch (Exception e) {
            e.printStackTrace();
            exit = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(exit); // client threads keep the JVM after an exception
    }

    private static void run(String nameServer, String topic, int count, int seconds)
            throws Exception {
        Map<String, Integer> brokers = new TreeMap<>();
        Set<String> sent = send(nameServer, topic, count, brokers);
        CountDownLatch missing = new CountDownLatch(count);
        Set<String> received = ConcurrentHashMap.newKeySet();
        AtomicInteger strangers = new AtomicInteger();

        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("consumer-of-" + topic);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String seen = message.getMsgId() + " " + text(message.getBody());
                if (!sent.contains(seen)) strangers.incrementAndGet();
                else if (received.add(seen)) missing.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        missing.await(seconds, TimeUnit.SECONDS);
        consumer.shutdown();
        System.out.println("sent=" + sent.size() + " received=" + received.size()
            + " strangers=" + strangers + " brokers=" + brokers);
    }

    /** Sends, counts the messages of each broker, and returns "id body" of every message. */
    private static Set<String> send(String nameServer, String topic, int count,
            Map<String, Integer> brokers) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producer-of-" + topic);
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(6000);
        producer.start();
        Set<String> sent = new HashSet<>();
        for (int i = 0; i < count; i++) {
            String body = "message " + i;
            Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
            SendResult result = i == 0 ? sendFirst(producer, message) : producer.send(message);
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("not stored: " + result);
            }
            sent.add(result.getMsgId() + " " + body);
            brokers.merge(result.getMessageQueue().getBrokerName(), 1, Integer::sum);
        }
        producer.shutdown();
        return sent;
    }

    /** Client 5.5.0: its first send throws when asking for the route takes it over a second. */
    private static SendResult sendFirst(DefaultMQProducer producer, Message message)
            throws Exception {
        for (int failed = 0;; failed++) {
            try {
                return producer.send(message);
            } catch (IllegalStateException e) {
                if (failed == 3) throw e;
            }
        }
    }

    private static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }
}
