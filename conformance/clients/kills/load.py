"""Writes through the stock drivers of all three APIs while the server is killed, and looks
afterwards whether it has what it acknowledged.

It is told what to do on its standard input, one line each, and answers each with one line:

    set-up MONGO CQL TABLE  makes collections and tables at these addresses: "ready"
    load MONGO CQL TABLE    begins to write: "loading"
    check MONGO CQL TABLE   ends that, reads everything back: a line of JSON
"""

import json
import logging
import sys
import threading

import documents
import entities
import rows
from known import Tally

PARTS = (documents.Part, rows.Part, entities.Part)
WORKERS = 2
PATIENCE_MS = 30000
IMPATIENCE_MS = 1000  # Writers would wait so long for a server that was killed.


def main():
    logging.disable(logging.CRITICAL)  # Drivers tell of every lost connection.
    tally = Tally()
    parts = [part(tally) for part in PARTS]
    stopping, workers = threading.Event(), []
    for line in sys.stdin:
        command, *places = line.split()
        if command == "set-up":
            for part, place in zip(parts, places):
                part.connect(place, PATIENCE_MS)
                part.set_up()
                part.disconnect()
            say("ready")
        elif command == "load":
            for part, place in zip(parts, places):
                part.connect(place, IMPATIENCE_MS)
            stopping.clear()
            workers = [threading.Thread(target=work, args=(part, number, stopping), daemon=True)
                       for part in parts for number in range(WORKERS)]
            for worker in workers:
                worker.start()
            say("loading")
        elif command == "check":
            stopping.set()
            for worker in workers:
                worker.join(60)
            stuck = sum(worker.is_alive() for worker in workers)
            faults = [f"{stuck} workers still wait for an answer"] if stuck else []
            for part, place in zip(parts, places):
                part.disconnect()
                part.connect(place, PATIENCE_MS)
                faults += part.check()
                part.disconnect()
            say(json.dumps({"acknowledged": tally.acknowledged, "unknown": tally.unknown,
                            "operations": dict(tally.operations), "faults": faults[:20]}))


def work(part, number, stopping):
    """Writes until the server is gone: the connection breaks in the middle of anything."""
    steps = part.steps(number, WORKERS)
    failures = 0
    while not stopping.is_set() and failures < 20:
        try:
            next(steps)
            failures = 0
        except StopIteration:
            return
        except Exception:  # pylint: disable=broad-except
            # What a driver throws when its server dies is as various as drivers are. A generator
            # that threw has ended.
            failures += 1
            steps = part.steps(number, WORKERS)
            stopping.wait(0.02)


def say(text):
    print(text, flush=True)


if __name__ == "__main__":
    main()
