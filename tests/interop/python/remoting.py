"""The C++ client: remoting.py NAMESERVER TOPIC COUNT SECONDS"""

from rocketmq.client import Message, Producer, PushConsumer

from roundtrip import round_trip


def send(address, topic):
    producer = Producer(f"producer-of-{topic}")
    producer.set_namesrv_addr(address)
    producer.start()

    def store(body):
        message = Message(topic)
        message.set_tags("tag")
        message.set_body(body)
        result = producer.send_sync(message)
        if result.status != 0:
            raise RuntimeError(f"not stored: {result}")
        return result.msg_id

    return store


def receive(address, topic, receipts, seconds):
    consumer = PushConsumer(f"consumer-of-{topic}")
    consumer.set_namesrv_addr(address)
    consumer.subscribe(topic, lambda message: receipts.take(message.id, message.body))
    consumer.start()
    receipts.complete.wait(seconds)


round_trip(send, receive)
