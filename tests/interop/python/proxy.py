"""The gRPC client rocketmq-python-client: proxy.py PROXY TOPIC COUNT SECONDS"""

import time

from rocketmq import (ClientConfiguration, Credentials, FilterExpression, Message, Producer,
                      SimpleConsumer)

from roundtrip import round_trip

BATCH = 32
INVISIBLE_SECONDS = 30
# The shortest long poll that the proxy accepts: one that finds nothing waits as long.
POLL_SECONDS = 5


def send(address, topic):
    producer = Producer(ClientConfiguration(address, Credentials()), (topic,))
    producer.startup()

    def store(body):
        message = Message()
        message.topic = topic
        message.tag = "tag"
        message.body = body
        return producer.send(message).message_id

    return store


def receive(address, topic, receipts, seconds):
    end = time.monotonic() + seconds
    consumer = SimpleConsumer(ClientConfiguration(address, Credentials()),
                              f"consumer-of-{topic}", {topic: FilterExpression()}, POLL_SECONDS)
    consumer.startup()
    while not receipts.complete.is_set() and time.monotonic() < end:
        try:
            messages = consumer.receive(BATCH, INVISIBLE_SECONDS) or []
        except Exception as refusal:  # the proxy may not know this new client yet
            print(refusal, flush=True)
            time.sleep(0.5)
            continue
        for message in messages:
            receipts.take(message.message_id, message.body)
            consumer.ack(message)


round_trip(send, receive)
