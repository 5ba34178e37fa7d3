"""What both Python clients do here: each gives its own way to send and to receive."""

import os
import sys
import threading
import traceback


class Receipts:
    """Which of the sent messages have come back. Clients tell it from threads of their own."""

    def __init__(self, sent):
        self.sent = sent
        self.received = set()
        self.strangers = 0
        self.lock = threading.Lock()
        self.complete = threading.Event()

    def take(self, message_id, body):
        seen = (message_id, body)
        with self.lock:
            if seen in self.sent:
                self.received.add(seen)
            else:
                self.strangers += 1
            if self.received == self.sent:
                self.complete.set()


def round_trip(send, receive):
    """Sends COUNT messages, has `receive` bring them back, and prints one line about it.

    `send(address, topic)` returns a function that stores a body and returns the message's id.
    `receive(address, topic, receipts, seconds)` returns when `receipts` are complete, or late.
    """
    try:
        address, topic, count, seconds = sys.argv[1:]
        store = send(address, topic)
        bodies = [f"message {i}".encode() for i in range(int(count))]
        receipts = Receipts({(store(body), body) for body in bodies})
        receive(address, topic, receipts, int(seconds))
        print(f"sent={len(receipts.sent)} received={len(receipts.received)} "
              f"strangers={receipts.strangers}", flush=True)
    except Exception:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # threads of the clients would keep the process
