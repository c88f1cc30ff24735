"""Writes for those who follow: each write happens once, however often its server goes away.

    python steady.py mongodb://127.0.0.1:27017 --count 100

Prints each write that was answered, such as "wrote replace a5"; two threads write, each to documents
of its own. The last write is the insert of "end".
"""

import argparse
import threading
import time

from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

PATIENCE = 60


def insist(write):
    """Until it is answered. What may have been done already is done again without effect."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return write()
        except DuplicateKeyError:
            return None
        except PyMongoError:
            if time.monotonic() > deadline:
                raise


def write(things, writer, count, failed):
    try:
        for number in range(count):
            for kind, do in writes(things, f"{writer}{number}", number):
                insist(do)
                # In one piece: two threads print.
                print(f"wrote {kind} {writer}{number}\n", end="", flush=True)
    except BaseException as error:
        failed.append(error)
        raise


def writes(things, key, number):
    yield "insert", lambda: things.insert_one({"_id": key, "n": number})
    if number % 3 == 0:
        yield "update", lambda: things.update_one({"_id": key}, {"$set": {"n": -number - 1}})
    if number % 5 == 0:
        yield "replace", lambda: things.replace_one({"_id": key}, {"replaced": number})
    if number % 7 == 0:
        yield "delete", lambda: things.delete_one({"_id": key})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    things = MongoClient(options.endpoint, serverSelectionTimeoutMS=20000).followed.things
    failed = []
    threads = [threading.Thread(target=write, args=(things, writer, options.count, failed))
               for writer in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(f"{failed[0]!r}")
    insist(lambda: things.insert_one({"_id": "end"}))
    print("wrote insert end", flush=True)


main()
