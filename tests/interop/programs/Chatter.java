import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * A producer and a consumer that are there until the program is killed, for commands that look at
 * them. Prints {@code both ways} when the first message has come back.
 *
 * <p>Arguments: name server, topic, group of the producer, group of the consumer.
 */
final class Chatter {
    private static final int PAUSE_MILLIS = 200;

    public static void main(String[] arguments) throws Exception {
        String nameServer = arguments[0];
        String topic = arguments[1];
        CountDownLatch came = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[3]);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("consumer");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            came.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer(arguments[2]);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("producer");
        producer.start();
        consumer.start();
        boolean told = false;
        for (;;) {
            try {
                producer.send(new Message(topic, "hello".getBytes(StandardCharsets.UTF_8)));
            } catch (Exception e) {
                e.printStackTrace(); // topics are made read-only under it
            }
            boolean back = came.await(PAUSE_MILLIS, TimeUnit.MILLISECONDS);
            if (back && !told) System.out.println("both ways");
            if (back) TimeUnit.MILLISECONDS.sleep(PAUSE_MILLIS);
            told |= back;
        }
    }
}
