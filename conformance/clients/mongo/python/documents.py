"""Inserting, reading, replacing and deleting documents of every type."""

import datetime
import re
import uuid

from bson import (Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp)
from pymongo import DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError

from checks import Refused
from report import Matches

EVERY_TYPE = {
    "_id": "all", "double": 1.5, "text": "Grüße", "document": {"a": {"b": 1}}, "list": [1, "2", [3]],
    "binary": b"\x00\xff", "uuid": Binary.from_uuid(uuid.UUID(int=7)),
    "id": ObjectId("0123456789abcdef01234567"), "true": True, "date":
    datetime.datetime(2026, 1, 2, 3, 4, 5, 678000), "null": None, "pattern": Regex("^a", re.I),
    "code": Code("f()"), "int": 7, "timestamp": Timestamp(4, 2), "long": Int64(1 << 40),
    "decimal": Decimal128("1.10"), "least": MinKey(), "most": MaxKey(),
    "reference": DBRef("c", 1),
}


def walk(place, report):
    walk_inserts(place, report)
    walk_changes(place, report)
    walk_bulk(place, report)
    walk_limits(place, report)


def walk_inserts(place, report):
    c = place.collection()
    report.check("insert: the id that was given", 1, lambda: c.insert_one({"_id": 1}).inserted_id)
    report.check("insert: the same id again", Refused(11000), lambda: c.insert_one({"_id": 1}))
    report.check("insert: 1.0 is the same id as 1", Refused(11000), lambda: c.insert_one({"_id": 1.0}))
    report.check("insert: an id is made by the server", Matches("an ObjectId", lambda found: isinstance(
        found["_id"], ObjectId) and list(found) == ["_id", "a"]), lambda: (place.database.command(
            "insert", c.name, documents=[{"a": 1}]), c.find_one({"a": 1}))[1])
    report.check("insert: every type comes back as it was", EVERY_TYPE,
                 lambda: (c.insert_one(dict(EVERY_TYPE)), c.find_one("all"))[1])
    report.check("insert: the key that is taken twice is told", {"keyPattern": {"_id": 1},
                 "keyValue": {"_id": 1}}, lambda: duplicate(c))
    report.check("insert: an id may not be a list", Refused(53), lambda: c.insert_one({"_id": [1]}))
    report.check("insert: many in order stop at the first error", ([1, 2], 11000, 1),
                 lambda: with_a_duplicate(place, True))
    report.check("insert: many in no order go on", ([1, 2, 3], 11000, 2),
                 lambda: with_a_duplicate(place, False))


def duplicate(c):
    reply = c.database.command("insert", c.name, documents=[{"_id": 1}])
    error = reply["writeErrors"][0]
    return {name: error[name] for name in ("keyPattern", "keyValue")}


def with_a_duplicate(place, ordered):
    """The ids that are there in the end, the code of the error, and how many were inserted."""
    c = place.collection({"_id": 1})
    try:
        c.insert_many([{"_id": 2}, {"_id": 1}, {"_id": 3}], ordered=ordered)
    except BulkWriteError as error:
        ids = sorted(each["_id"] for each in c.find())
        return ids, error.details["writeErrors"][0]["code"], error.details["nInserted"]


def walk_changes(place, report):
    c = place.collection(*({"_id": n, "n": n, "group": n % 3} for n in range(9)))
    report.check("update: one", (1, 1), lambda: counts(c.update_one({"group": 0}, {"$set": {"x": 1}})))
    report.check("update: the same again changes nothing", (1, 0),
                 lambda: counts(c.update_one({"_id": 0}, {"$set": {"x": 1}})))
    report.check("update: many", (3, 3),
                 lambda: counts(c.update_many({"group": 1}, {"$inc": {"n": 10}})))
    report.check("update: none", (0, 0), lambda: counts(c.update_one({"_id": 99}, {"$set": {"x": 1}})))
    report.check("update: upsert", 100, lambda: c.update_one(
        {"_id": 100, "a": {"$gt": 1}, "b": 2}, {"$set": {"c": 3}}, upsert=True).upserted_id)
    report.check("update: what an upsert makes", {"_id": 100, "b": 2, "c": 3}, lambda: c.find_one(100))
    report.check("replace", {"_id": 2, "only": 1},
                 lambda: (c.replace_one({"_id": 2}, {"only": 1}), c.find_one(2))[1])
    report.check("replace: the id stays", Refused(66), lambda: c.replace_one({"_id": 2}, {"_id": 3}))
    report.check("update: the id stays", Refused(66),
                 lambda: c.update_one({"_id": 2}, {"$set": {"_id": 3}}))
    report.check("findAndModify: the document before", 3, lambda: c.find_one_and_update(
        {"_id": 3}, {"$inc": {"n": 1}})["n"])
    report.check("findAndModify: the document after", 5, lambda: c.find_one_and_update(
        {"_id": 3}, {"$inc": {"n": 1}}, return_document=True)["n"])
    report.check("findAndModify: the first by order, its fields chosen", {"n": 8},
                 lambda: c.find_one_and_update({"group": 2}, {"$set": {"y": 1}}, sort=[("_id", -1)],
                                               projection={"_id": 0, "n": 1}))
    report.check("findAndModify: replace", {"_id": 4, "z": 1}, lambda: c.find_one_and_replace(
        {"_id": 4}, {"z": 1}, return_document=True))
    report.check("findAndModify: remove", (5, None),
                 lambda: (c.find_one_and_delete({"_id": 5})["_id"], c.find_one(5)))
    report.check("delete: one", 1, lambda: c.delete_one({"group": {"$exists": True}}).deleted_count)
    report.check("delete: many", 5, lambda: c.delete_many({"group": {"$exists": True}}).deleted_count)
    report.check("count", 3, lambda: c.count_documents({}))
    report.check("distinct", [1, 2, 3], lambda: sorted(place.collection(
        {"a": 1}, {"a": [2, 3]}, {"a": 1}, {}).distinct("a")))


def counts(result):
    return result.matched_count, result.modified_count


def walk_bulk(place, report):
    c = place.collection({"_id": 1, "n": 1})
    writes = [InsertOne({"_id": 2, "n": 2}), UpdateOne({"_id": 1}, {"$inc": {"n": 1}}),
              ReplaceOne({"_id": 3}, {"n": 3}, upsert=True), UpdateMany({}, {"$set": {"all": True}}),
              DeleteOne({"_id": 2})]
    report.check("bulk: every kind", (1, 4, 4, 1, {2: 3}), lambda: (lambda result: (
        result.inserted_count, result.matched_count, result.modified_count, result.deleted_count,
        result.upserted_ids))(c.bulk_write(writes)))
    report.check("bulk: what is left", [{"_id": 1, "n": 2, "all": True}, {"_id": 3, "n": 3, "all": True}],
                 lambda: list(c.find().sort("_id")))
    other = place.collection()
    report.check("bulkWrite: several collections at once", (2, 1, 1), lambda: (lambda result: (
        result.inserted_count, result.modified_count, result.deleted_count))(place.client.bulk_write([
            InsertOne({"_id": 1}, namespace=f"{place.name}.{other.name}"),
            InsertOne({"_id": 9}, namespace=f"{place.name}.{c.name}"),
            UpdateOne({"_id": 1}, {"$set": {"n": 5}}, namespace=f"{place.name}.{c.name}"),
            DeleteOne({"_id": 3}, namespace=f"{place.name}.{c.name}"),
        ])))


def walk_limits(place, report):
    c = place.collection()
    report.check("limits: a document of 16 MiB", 16 * 1024 * 1024 - 64, lambda: (c.insert_one(
        {"_id": 1, "a": "x" * (16 * 1024 * 1024 - 64)}), len(c.find_one(1)["a"]))[1])
    # PyMongo itself fails to compress an empty list.
    if "compressors" not in place.settings:
        report.check("limits: no writes at all", Refused(16),
                     lambda: place.database.command("insert", c.name, documents=[]))
    report.check("limits: a field of an update may not begin with a dollar", Refused(52),
                 lambda: c.update_one({"_id": 1}, {"$set": {"$x.y": 1}}))
