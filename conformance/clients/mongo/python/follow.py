"""Follows a collection while its server goes away and comes back; README.md says how.

    python follow.py mongodb://127.0.0.1:27017
"""

import sys

from pymongo import MongoClient
from pymongo.errors import PyMongoError

# Every so many events the stream is opened anew.
REOPEN = 20


def main():
    things = MongoClient(sys.argv[1], serverSelectionTimeoutMS=20000).followed.things
    token, count, is_ready = {}, 0, False
    while True:
        try:
            with things.watch(max_await_time_ms=500, **token) as stream:
                if not is_ready:
                    print("ready", flush=True)
                    is_ready = True
                for event in stream:
                    count += 1
                    name = ("resume_after", "start_after")[count // REOPEN % 2]
                    token = {name: event["_id"]}
                    key = event["documentKey"]["_id"]
                    print("event", count, event["operationType"], key, flush=True)
                    if key == "end":
                        return
                    if count % REOPEN == 0:
                        break
        except PyMongoError as error:
            print(f"met {error!r:.200}", flush=True)
            if not token:
                raise


main()
