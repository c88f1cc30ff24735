"""Data of each kind that a data folder keeps: fills a new one, or looks whether an old one has it.

    python kept.py mongodb://127.0.0.1:27017 --fill
    python kept.py mongodb://127.0.0.1:27017 --expect
"""

import argparse
import sys
import uuid
from datetime import datetime, timezone

import bson
from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, OperationFailure, WriteError

AWARE = CodecOptions(tz_aware=True, uuid_representation=bson.binary.UuidRepresentation.STANDARD)
TEN_YEARS = 315_360_000
VALUES = [
    1, bson.Int64(1 << 40), 1.5, float("inf"), -0.0, bson.Decimal128("1.10"), "text", "ß\0é", "",
    True, None, b"\x00\xff", uuid.UUID(int=7), bson.ObjectId("0123456789abcdef01234567"),
    datetime(2026, 11, 18, 12, 30, 15, 123000, tzinfo=timezone.utc), bson.Regex("^a", "i"),
    bson.Timestamp(5, 6), bson.MinKey(), bson.MaxKey(), [1, [2, {"a": 3}], []], {"a": {"b": [1]}},
    {}, bson.Code("f()"), "long" * 20_000,
]


def things():
    return [{"_id": number, "value": value} for number, value in enumerate(VALUES)]


def orders():
    return [{"_id": number, "tenant": f"t{number % 5}", "total": number, "tags": [number % 3, "x"],
             "code": f"c{number}", "at": datetime(2036, 1, 1, tzinfo=timezone.utc)}
            for number in range(60)]


def fill(client):
    database = client.get_database("kept", codec_options=AWARE)
    database.things.insert_many(things())
    database.things.insert_one({"_id": "gone"})
    database.things.delete_one({"_id": "gone"})
    database.orders.create_index([("tenant", 1), ("total", -1)], name="by_tenant")
    database.orders.create_index("code", unique=True)
    database.orders.create_index("tags")
    database.orders.create_index("at", expireAfterSeconds=TEN_YEARS)
    database.orders.create_index("total", partialFilterExpression={"total": {"$gt": 50}},
                                 name="large")
    database.orders.insert_many(orders())
    client.admin.command("shardCollection", "kept.sharded", key={"tenant": "hashed"})
    database.sharded.insert_many(orders())
    database.create_collection("capped", capped=True, size=4096, max=3)
    database.capped.insert_many([{"_id": number} for number in range(5)])
    database.create_collection("checked", validator={"n": {"$gt": 0}},
                               collation={"locale": "de", "strength": 2})
    database.checked.insert_many([{"_id": 1, "n": 1, "name": "Äpfel"}])
    database.create_collection("view", viewOn="orders", pipeline=[{"$match": {"total": {"$lt": 3}}}])
    client.admin.command("createRole", "kept", roles=["readAnyDatabase"], privileges=[])
    client.admin.command("createUser", "ada", pwd="correct-horse", roles=["kept", "root"])


def refused(kind, action):
    try:
        action()
    except kind:
        return True
    return False


def keys(collection):
    return {name: (index["key"], index.get("unique"), index.get("expireAfterSeconds"),
                   index.get("partialFilterExpression"))
            for name, index in collection.index_information().items()}


def log_in(endpoint, password):
    with MongoClient(endpoint, username="ada", password=password) as client:
        return client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]


def followed(database):
    """A change stream on it and one write: the event's kind and document."""
    with database.followed.watch() as stream:
        database.followed.insert_one({"_id": "new"})
        event = stream.next()
    return event["operationType"], event["fullDocument"]


def cases(client, endpoint):
    database = client.get_database("kept", codec_options=AWARE)
    by_tenant = [order for order in orders() if order["tenant"] == "t3"]
    yield "values", list(database.things.find(sort=[("_id", 1)])), things()
    yield "documents", list(database.orders.find(sort=[("_id", 1)])), orders()
    yield ("an index", list(database.orders.find({"tenant": "t3"}, hint="by_tenant")),
           by_tenant[::-1])
    yield "a multikey index", database.orders.count_documents({"tags": 2}, hint="tags_1"), 20
    yield ("a partial index", database.orders.count_documents({"total": {"$gt": 55}}, hint="large"),
           4)
    yield "indexes", keys(database.orders), {
        "_id_": ([("_id", 1)], None, None, None),
        "by_tenant": ([("tenant", 1), ("total", -1)], None, None, None),
        "code_1": ([("code", 1)], True, None, None), "tags_1": ([("tags", 1)], None, None, None),
        "at_1": ([("at", 1)], None, TEN_YEARS, None),
        "large": ([("total", 1)], None, None, {"total": {"$gt": 50}})}
    yield "a unique index", refused(DuplicateKeyError, lambda: database.orders.insert_one(
        {"_id": "new", "code": "c7"})), True
    yield "a sharded collection", list(database.sharded.find({"tenant": "t3"}, sort=[("_id", 1)])), \
        by_tenant
    yield "its key", client.config.collections.find_one({"_id": "kept.sharded"})["key"], \
        {"tenant": "hashed"}
    yield "a capped collection", [thing["_id"] for thing in database.capped.find()], [2, 3, 4]
    yield "a collation", database.checked.count_documents({"name": "äpfel"}), 1
    yield "a validator", refused(WriteError, lambda: database.checked.insert_one({"n": 0})), True
    yield "a view", [thing["_id"] for thing in database.view.find(sort=[("_id", 1)])], [0, 1, 2]
    yield "a user", log_in(endpoint, "correct-horse"), [{"user": "ada", "db": "admin"}]
    yield "a wrong password", refused(OperationFailure, lambda: log_in(endpoint, "wrong")), True
    database.orders.update_one({"_id": 3}, {"$inc": {"total": 1000}})
    yield "a change", database.orders.find_one({"total": 1003})["_id"], 3
    yield "a change stream", followed(database), ("insert", {"_id": "new"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--expect", action="store_true")
    options = parser.parse_args()
    client, wrong = MongoClient(options.endpoint), 0
    if options.fill:
        fill(client)
    if options.expect:
        for name, found, expected in cases(client, options.endpoint):
            if found != expected:
                wrong += 1
                print(f"{name}: {str(found)[:2000]} instead of {str(expected)[:2000]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
