"""Writes through two servers while their database goes away and comes back.

    python failover.py mongodb://127.0.0.1:27017 --other mongodb://127.0.0.1:27018 --until FILE

Prints how many writes were answered, over and over, until FILE is there. Then it looks whether all
of them happened, each once; the exit code is 0 if they did.
"""

import argparse
import os
import sys
import threading
import time
import uuid

from pymongo import MongoClient, ReturnDocument
from pymongo.errors import PyMongoError

WRITERS = 3


class Writer:
    """Counts up in a document of its own, and inserts a document for each number."""

    def __init__(self, database, name, until):
        self.database, self.name, self.until = database, name, until
        self.inserted, self.answered, self.failures = [], 0, 0
        self.faults = []
        database.counters.insert_one({"_id": name, "n": 0})
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        last, failures_since = 0, 0
        while not os.path.exists(self.until):
            try:
                counted = self.database.counters.find_one_and_update(
                    {"_id": self.name}, {"$inc": {"n": 1}},
                    return_document=ReturnDocument.AFTER)["n"]
                # Each write that failed may have been done or not; one that was answered was done
                # once.
                if not last < counted <= last + 1 + failures_since:
                    self.faults.append(f"{self.name} went from {last} to {counted} "
                                       f"after {failures_since} failures")
                last, failures_since = counted, 0
                self.database.numbers.insert_one({"_id": f"{self.name} {counted}"})
                self.inserted.append(f"{self.name} {counted}")
                self.answered += 1
            except PyMongoError as error:
                self.failures += 1
                failures_since += 1
                if self.failures == 1:
                    print(f"{self.name} met {error!r:.200}", flush=True)
                time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--other", required=True)
    parser.add_argument("--until", required=True)
    options = parser.parse_args()
    name = f"failover_{uuid.uuid4().hex[:12]}"
    servers = [[Writer(MongoClient(endpoint)[name], f"{number} {writer}", options.until)
                for writer in range(WRITERS)]
               for number, endpoint in enumerate([options.endpoint, options.other])]
    while not os.path.exists(options.until):
        answered = [sum(writer.answered for writer in writers) for writers in servers]
        print("answered", *answered, flush=True)
        time.sleep(0.1)
    writers = sum(servers, [])
    for writer in writers:
        writer.thread.join()
    there = {number["_id"] for number in MongoClient(options.endpoint)[name].numbers.find()}
    answered = {number for writer in writers for number in writer.inserted}
    faults = [fault for writer in writers for fault in writer.faults]
    failures = sum(writer.failures for writer in writers)
    print(f"{len(answered)} writes answered, {failures} failed, {len(there)} there, "
          f"{len(answered - there)} lost; {faults}")
    sys.exit(0 if answered and answered <= there and not faults else 1)


if __name__ == "__main__":
    main()
