"""Filters, projections, orders: which documents are found, and how they are answered."""

import re

from bson import Decimal128, Int64, Regex

from checks import Refused

ITEMS = [
    {"_id": 1, "n": 5, "text": "apple", "tags": ["a", "b"], "parts": [{"k": 1, "v": 2}, {"k": 2, "v": 9}]},
    {"_id": 2, "n": 7.5, "text": "Banana", "tags": ["b", "c"], "parts": [{"k": 1, "v": 9}]},
    {"_id": 3, "n": Int64(12), "text": "cherry", "tags": [], "nested": {"deep": {"x": 1}}},
    {"_id": 4, "n": Decimal128("7.5"), "text": "date", "tags": "b", "nested": {"deep": {"x": 2}}},
    {"_id": 5, "n": None, "flags": 0b1010},
    {"_id": 6, "text": "äpfel", "nested": [{"deep": {"x": 3}}, {"deep": {"x": 4}}]},
]

# A filter, and the ids that it finds.
FILTERS = [
    ({}, [1, 2, 3, 4, 5, 6]),
    ({"n": 7.5}, [2, 4]),
    ({"n": {"$gt": 5, "$lte": 12}}, [2, 3, 4]),
    ({"n": {"$gte": 5, "$lt": 7.5}}, [1]),
    ({"n": {"$ne": 7.5}}, [1, 3, 5, 6]),
    ({"n": None}, [5, 6]),
    ({"n": {"$exists": False}}, [6]),
    ({"n": {"$type": "number"}}, [1, 2, 3, 4]),
    ({"n": {"$type": ["decimal", 10]}}, [4, 5]),
    ({"n": {"$in": [5, None]}}, [1, 5, 6]),
    ({"n": {"$nin": [5, None]}}, [2, 3, 4]),
    ({"n": {"$mod": [5, 0]}}, [1]),
    ({"text": {"$in": [re.compile("^[ab]"), "date"]}}, [1, 4]),
    ({"text": Regex("^b", "i")}, [2]),
    ({"text": {"$regex": "AN.*A$", "$options": "i"}}, [2]),
    ({"text": {"$not": re.compile("e")}}, [2, 5]),
    ({"text": {"$gt": "b"}}, [3, 4, 6]),
    ({"tags": "b"}, [1, 2, 4]),
    ({"tags": ["b", "c"]}, [2]),
    ({"tags": {"$all": ["a", "b"]}}, [1]),
    ({"tags": {"$size": 0}}, [3]),
    ({"tags.0": "b"}, [2]),
    ({"parts.k": 2}, [1]),
    ({"parts": {"$elemMatch": {"k": 1, "v": 9}}}, [2]),
    ({"parts.k": 1, "parts.v": 9}, [1, 2]),
    ({"parts": {"k": 1, "v": 9}}, [2]),
    ({"nested.deep.x": {"$gte": 2}}, [4, 6]),
    ({"nested.deep": {"x": 1}}, [3]),
    ({"flags": {"$bitsAllSet": 0b1000}}, [5]),
    ({"flags": {"$bitsAnyClear": [1, 3]}}, []),
    ({"$or": [{"_id": 1}, {"n": {"$gt": 10}}]}, [1, 3]),
    ({"$and": [{"tags": "b"}, {"tags": "c"}]}, [2]),
    ({"$nor": [{"n": {"$exists": True}}, {"_id": 9}]}, [6]),
    ({"n": {"$not": {"$gt": 6}}}, [1, 5, 6]),
    ({"$expr": {"$gt": ["$n", {"$add": ["$_id", 4]}]}}, [2, 3]),
    ({"$jsonSchema": {"required": ["tags"], "properties": {"tags": {"bsonType": "array", "minItems": 1}}}},
     [1, 2]),
    ({"$comment": "why", "_id": {"$lt": 3}}, [1, 2]),
]

# A projection, and what it leaves of the first item.
PROJECTIONS = [
    ({"n": 1}, {"_id": 1, "n": 5}),
    ({"_id": 0, "n": 1, "text": 1}, {"n": 5, "text": "apple"}),
    ({"parts": 0, "tags": 0, "text": 0}, {"_id": 1, "n": 5}),
    ({"parts.k": 1}, {"_id": 1, "parts": [{"k": 1}, {"k": 2}]}),
    ({"_id": 0, "tags": {"$slice": -1}, "n": 1}, {"tags": ["b"], "n": 5}),
    ({"_id": 0, "parts": {"$elemMatch": {"k": 2}}}, {"parts": [{"k": 2, "v": 9}]}),
    ({"_id": 0, "twice": {"$multiply": ["$n", 2]}}, {"twice": 10}),
    ({"_id": 0, "same": "$text"}, {"same": "apple"}),
]

REFUSED = [
    ({"n": {"$nonsense": 1}}, 2),
    ({"$nonsense": 1}, 2),
    ({"$and": []}, 2),
    ({"n": {"$in": 1}}, 2),
    ({"n": {"$mod": [0, 1]}}, 2),
    ({"n": {"$type": "nonsense"}}, 2),
    ({"n": {"$size": -1}}, 2),
    ({"text": {"$regex": "("}}, 51091),
    ({"n": {"$elemMatch": 1}}, 2),
]


def walk(place, report):
    c = place.collection(*ITEMS)
    for filter_, ids in FILTERS:
        report.check(f"filter {filter_}", ids, lambda: [each["_id"] for each in c.find(filter_).sort("_id")])
    for filter_, code in REFUSED:
        report.check(f"refused filter {filter_}", Refused(code), lambda: list(c.find(filter_)))
    for projection, expected in PROJECTIONS:
        report.check(f"projection {projection}", expected, lambda: c.find_one({"_id": 1}, projection))
    report.check("projection by position", {"_id": 1, "parts": [{"k": 2, "v": 9}]},
                 lambda: c.find_one({"parts.k": 2}, {"parts.$": 1}))
    report.check("refused: fields both taken and left out", Refused(31254),
                 lambda: c.find_one({}, {"n": 1, "text": 0}))
    walk_orders(place, c, report)


def walk_orders(place, c, report):
    ids = lambda cursor: [each["_id"] for each in cursor]
    report.check("sort: missing and null first, then numbers", [5, 6, 1, 2, 4, 3],
                 lambda: ids(c.find().sort([("n", 1), ("_id", 1)])))
    report.check("sort: downwards, skip and limit", [2, 1],
                 lambda: ids(c.find({"n": {"$type": "number"}}).sort([("n", -1), ("_id", 1)])
                             .skip(1).limit(3))[0:1] + ids(c.find().sort("_id", 1).limit(1)))
    report.check("sort: a list counts by its least", [3, 1, 2, 4],
                 lambda: ids(c.find({"tags": {"$exists": True}}).sort([("tags", 1), ("_id", 1)])))
    every = [1, "1", None, {"a": 1}, [], b"x", True, Decimal128("0.5")]
    mixed = place.collection(*({"_id": n, "v": value} for n, value in enumerate(every)))
    report.check("sort: across types", [4, 2, 7, 0, 1, 3, 5, 6], lambda: ids(mixed.find().sort("v")))
    words = place.collection(*({"_id": word} for word in ["z", "a", "Ä", "B", "ä"]))
    report.check("collation: German order", ["a", "ä", "Ä", "B", "z"], lambda: ids(
        words.find().sort("_id", 1).collation({"locale": "de"})))
    report.check("collation: case and accents do not count", 1, lambda: len(list(
        words.find({"_id": "b"}).collation({"locale": "en", "strength": 1}))))
    numbers = place.collection(*({"_id": word} for word in ["a10", "a2", "a1"]))
    report.check("collation: numbers within words", ["a1", "a2", "a10"], lambda: ids(
        numbers.find().sort("_id", 1).collation({"locale": "en", "numericOrdering": True})))
    report.check("let: variables of a query", [3], lambda: [each["_id"] for each in place.database.command(
        "find", c.name, filter={"$expr": {"$eq": ["$n", "$$wanted"]}}, let={"wanted": 12}
    )["cursor"]["firstBatch"]])
