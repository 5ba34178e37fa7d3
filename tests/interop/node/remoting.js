// The remoting client ali-ons: node remoting.js NAMESERVER TOPIC COUNT SECONDS
'use strict';
const { Consumer, Message, Producer } = require('ali-ons');
const httpclient = require('urllib');
const { logger, main, roundTrip } = require('./roundtrip');

main(async (nameSrv, topic, count, seconds) => {
  const common = { httpclient, nameSrv: [nameSrv], accessKeyId: '', accessKeySecret: '', logger };
  const producer = new Producer({ ...common, producerGroup: `producer-of-${topic}` });
  await producer.ready();

  const send = async body => {
    const result = await producer.send(new Message(topic, 'tag', body));
    if (result.sendStatus !== 'SEND_OK') throw new Error(`not stored: ${JSON.stringify(result)}`);
    return result.msgId;
  };
  const receive = async take => {
    const consumer = new Consumer({
      ...common,
      consumerGroup: `consumer-of-${topic}`,
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    });
    consumer.on('error', error => console.error(error));
    consumer.subscribe(topic, '*', async message => take(message.msgId, message.body));
    await consumer.ready();
  };
  await roundTrip(Number(count), Number(seconds), send, receive);
});
