"""Two servers on one database behind a load balancer: the next request goes to the other one.

    python handover.py mongodb://127.0.0.1:27017 --other mongodb://127.0.0.1:27018

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

import argparse
import sys
import threading
import time
import uuid

from checks import Refused, outcome
from report import Report
from proxy import Proxy
from pymongo import CursorType, MongoClient, ReturnDocument
from pymongo.uri_parser import parse_uri


def walk(proxy, client, report):
    database = client[f"handover_{uuid.uuid4().hex[:12]}"]
    try:
        writes(proxy, database, report)
        cursors(proxy, database, report)
        transactions(proxy, client, database, report)
    finally:
        client.drop_database(database.name)


def writes(proxy, database, report):
    """A write whose answer was lost is sent again, to the other server, and done once."""
    things = database.things
    things.insert_one({"_id": 0, "n": 0})

    def insert():
        proxy.lose_reply_to("insert")
        return things.insert_one({"_id": 1}).inserted_id, things.count_documents({"_id": 1})

    def update():
        proxy.lose_reply_to("update")
        return things.update_one({"_id": 0}, {"$inc": {"n": 1}}).modified_count, number()

    def delete():
        proxy.lose_reply_to("delete")
        return things.delete_one({"_id": 1}).deleted_count, things.count_documents({"_id": 1})

    def find_and_modify():
        proxy.lose_reply_to("findAndModify")
        after = things.find_one_and_update({"_id": 0}, {"$inc": {"n": 1}},
                                           return_document=ReturnDocument.AFTER)
        return after["n"], number()

    def number():
        return things.find_one({"_id": 0})["n"]

    report.check("an insert is done once", (1, 1), insert)
    report.check("an update is done once", (1, 1), update)
    report.check("a delete is done once", (1, 0), delete)
    report.check("a findAndModify is done once", (2, 2), find_and_modify)


def cursors(proxy, database, report):
    """A cursor is of one server; another one says so, as a restarted one would."""
    rows = database.rows
    rows.insert_many({"_id": number} for number in range(10))

    def read_on():
        cursor = rows.find({}, batch_size=2)
        first = [next(cursor)["_id"], next(cursor)["_id"]]
        proxy.switch()
        # Reads are tried again by the driver, where a ping may meet the connection that was cut.
        rows.find_one({})
        try:
            return list(cursor)
        finally:
            report.verdict("a cursor begins", [0, 1], first)

    report.check("a cursor of another server is not found", Refused(43), read_on)
    report.check("and a new one is", 10, lambda: len(list(rows.find({}, batch_size=3))))


def transactions(proxy, client, database, report):
    left, right = database.left, database.right
    left.insert_one({"_id": 0})
    right.insert_one({"_id": 0})

    def interrupted():
        """The driver begins again with what it is told is transient."""
        attempts = []

        def move(session):
            attempts.append(1)
            left.insert_one({"_id": 1}, session=session)
            if len(attempts) == 1:
                proxy.switch()
            right.insert_one({"_id": 1}, session=session)

        with client.start_session() as session:
            session.with_transaction(move)
        return len(attempts), left.count_documents({}), right.count_documents({})

    def unanswered():
        """The driver sends the commit again, and the other server knows what became of it."""
        attempts = []

        def move(session):
            attempts.append(1)
            left.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
            right.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
            proxy.lose_commit()

        with client.start_session() as session:
            session.with_transaction(move)
        return left.find_one({"_id": 1})["n"], right.find_one({"_id": 1})["n"]

    report.check("a transaction cut in two is done again, whole", (2, 2, 2), interrupted)
    report.check("a commit whose answer was lost is done once", (1, 1), unanswered)


def tails(one, other, report):
    """A cursor that waits at the end of a capped collection hears of what the other server writes."""
    name = f"tails_{uuid.uuid4().hex[:12]}"
    lines = one[name].create_collection("lines", capped=True, size=100_000)
    lines.insert_one({"_id": 0})
    cursor = lines.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(60_000)
    next(cursor)

    def hear():
        heard = []
        for number in range(1, 6):
            # So late that the cursor waits, which it would do for a minute.
            writer = threading.Timer(0.2, other[name].lines.insert_one, [{"_id": number}])
            writer.start()
            began = time.monotonic()
            heard.append(next(cursor)["_id"])
            if time.monotonic() - began > 20:
                return f"heard of {number} after {time.monotonic() - began:.0f} s"
        return heard

    report.check("a waiting cursor hears of what another server wrote", [1, 2, 3, 4, 5], hear)
    one.drop_database(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--other", required=True)
    options = parser.parse_args()
    proxy = Proxy(*(parse_uri(server)["nodelist"][0]
                    for server in (options.endpoint, options.other)))
    client, report = MongoClient(proxy.endpoint, serverSelectionTimeoutMS=10000), Report(outcome)
    report.check("the walk runs to its end", None, lambda: walk(proxy, client, report))
    servers = [MongoClient(server) for server in (options.endpoint, options.other)]
    report.check("waiting cursors come to their end", None, lambda: tails(*servers, report))
    for each in [client, *servers]:
        each.close()
    proxy.close()
    sys.exit(0 if report.finish() else 1)


if __name__ == "__main__":
    main()
