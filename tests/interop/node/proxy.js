// The gRPC client rocketmq-client-nodejs: node proxy.js PROXY TOPIC COUNT SECONDS
'use strict';
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { logger, main, roundTrip } = require('./roundtrip');

const BATCH = 32;
const INVISIBLE_MILLIS = 30000;

main(async (endpoints, topic, count, seconds) => {
  const common = { endpoints, namespace: '', logger };
  const producer = new Producer(common);
  await producer.startup();

  const send = async body =>
    (await producer.send({ topic, tag: 'tag', body: Buffer.from(body) })).messageId;
  const receive = async (take, open) => {
    const consumer = new SimpleConsumer({
      ...common,
      consumerGroup: `consumer-of-${topic}`,
      subscriptions: new Map([[topic, '*']]),
      awaitDuration: 5000,
    });
    await consumer.startup();
    while (open()) {
      for (const message of await consumer.receive(BATCH, INVISIBLE_MILLIS)) {
        take(message.messageId, message.body);
        await consumer.ack(message);
      }
    }
  };
  await roundTrip(Number(count), Number(seconds), send, receive);
});
