"""Aggregation: stages, expressions, accumulators."""

import datetime

from bson import Decimal128

from checks import Refused

SALES = [
    {"_id": 1, "item": "a", "price": 10, "amount": 2, "at": datetime.datetime(2026, 3, 1, 8)},
    {"_id": 2, "item": "b", "price": 20, "amount": 1, "at": datetime.datetime(2026, 3, 1, 9)},
    {"_id": 3, "item": "a", "price": 10, "amount": 5, "at": datetime.datetime(2026, 3, 15, 9)},
    {"_id": 4, "item": "c", "price": Decimal128("0.10"), "amount": 10, "at": datetime.datetime(2026, 4, 4, 11)},
]

# A pipeline over the sales, and its answer.
PIPELINES = [
    ([{"$match": {"item": "a"}}, {"$count": "n"}], [{"n": 2}]),
    ([{"$group": {"_id": "$item", "total": {"$sum": {"$multiply": ["$price", "$amount"]}}}}, {"$sort": {"_id": 1}}],
     [{"_id": "a", "total": 70}, {"_id": "b", "total": 20}, {"_id": "c", "total": Decimal128("1.00")}]),
    ([{"$group": {"_id": None, "most": {"$max": "$amount"}, "least": {"$min": "$amount"}, "mean": {"$avg": "$amount"},
                  "items": {"$addToSet": "$item"}}}, {"$project": {"_id": 0, "most": 1, "least": 1, "mean": 1,
                                                                   "kinds": {"$size": "$items"}}}],
     [{"most": 10, "least": 1, "mean": 4.5, "kinds": 3}]),
    ([{"$sort": {"amount": -1}}, {"$skip": 1}, {"$limit": 1}, {"$project": {"item": 1}}], [{"_id": 3, "item": "a"}]),
    ([{"$sort": {"_id": 1}}, {"$group": {"_id": "$item", "all": {"$push": "$amount"}, "first": {"$first": "$_id"}}},
      {"$match": {"_id": "a"}}], [{"_id": "a", "all": [2, 5], "first": 1}]),
    ([{"$sortByCount": "$item"}, {"$limit": 1}], [{"_id": "a", "count": 2}]),
    ([{"$match": {"_id": 1}}, {"$addFields": {"cost": {"$multiply": ["$price", "$amount"]}}}, {"$unset": ["at", "price"]}],
     [{"_id": 1, "item": "a", "amount": 2, "cost": 20}]),
    ([{"$match": {"_id": 1}}, {"$replaceRoot": {"newRoot": {"i": "$item"}}}], [{"i": "a"}]),
    ([{"$facet": {"few": [{"$match": {"amount": {"$lt": 3}}}, {"$count": "n"}], "all": [{"$count": "n"}]}}],
     [{"few": [{"n": 2}], "all": [{"n": 4}]}]),
    ([{"$bucket": {"groupBy": "$amount", "boundaries": [0, 3, 20], "output": {"n": {"$sum": 1}}}}],
     [{"_id": 0, "n": 2}, {"_id": 3, "n": 2}]),
    ([{"$group": {"_id": {"$dateToString": {"date": "$at", "format": "%Y-%m"}}, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
     [{"_id": "2026-03", "n": 3}, {"_id": "2026-04", "n": 1}]),
    ([{"$sample": {"size": 2}}, {"$count": "n"}], [{"n": 2}]),
    ([{"$match": {"_id": {"$lte": 2}}}, {"$unionWith": {"coll": "labels", "pipeline": [{"$project": {"_id": 1}}]}},
      {"$count": "n"}], [{"n": 5}]),
    ([{"$match": {"_id": 2}}, {"$lookup": {"from": "labels", "localField": "item", "foreignField": "_id", "as": "l"}},
      {"$project": {"l": 1}}], [{"_id": 2, "l": [{"_id": "b", "label": "Bread", "tags": ["x", "y"]}]}]),
    ([{"$match": {"_id": 1}}, {"$lookup": {"from": "labels", "let": {"i": "$item"}, "as": "others", "pipeline": [
        {"$match": {"$expr": {"$ne": ["$_id", "$$i"]}}}, {"$sort": {"_id": 1}}, {"$project": {"_id": 1}}]}},
      {"$project": {"others": 1}}], [{"_id": 1, "others": [{"_id": "b"}, {"_id": "c"}]}]),
]

# An expression over {"n": 7, "t": "Hello", "l": [3, 1, 2], "d": {"x": 1}}, and its value.
EXPRESSIONS = [
    ({"$add": ["$n", 1, 0.5]}, 8.5),
    ({"$divide": [Decimal128("1"), 3]}, Decimal128("0.3333333333333333333333333333333333")),
    ({"$mod": ["$n", 4]}, 3),
    ({"$round": [2.345, 2]}, 2.35),
    ({"$cond": [{"$gt": ["$n", 5]}, "large", "small"]}, "large"),
    ({"$switch": {"branches": [{"case": {"$eq": ["$n", 1]}, "then": 1}], "default": 0}}, 0),
    ({"$ifNull": ["$missing", "none"]}, "none"),
    ({"$concat": ["$t", " ", "World"]}, "Hello World"),
    ({"$toUpper": "$t"}, "HELLO"),
    ({"$substrCP": ["$t", 1, 3]}, "ell"),
    ({"$split": ["a,b,c", ","]}, ["a", "b", "c"]),
    ({"$regexFind": {"input": "$t", "regex": "l+"}}, {"match": "ll", "idx": 2, "captures": []}),
    ({"$strLenBytes": "Grüße"}, 7),
    ({"$arrayElemAt": ["$l", -1]}, 2),
    ({"$map": {"input": "$l", "as": "x", "in": {"$multiply": ["$$x", 2]}}}, [6, 2, 4]),
    ({"$filter": {"input": "$l", "cond": {"$gte": ["$$this", 2]}}}, [3, 2]),
    ({"$reduce": {"input": "$l", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 6),
    ({"$sortArray": {"input": "$l", "sortBy": 1}}, [1, 2, 3]),
    ({"$setUnion": [[1, 2], [2, 3]]}, [1, 2, 3]),
    ({"$objectToArray": "$d"}, [{"k": "x", "v": 1}]),
    ({"$mergeObjects": ["$d", {"y": 2}]}, {"x": 1, "y": 2}),
    ({"$dateAdd": {"startDate": datetime.datetime(2026, 1, 31), "unit": "month", "amount": 1}},
     datetime.datetime(2026, 2, 28)),
    ({"$dayOfWeek": datetime.datetime(2026, 11, 16)}, 2),
    ({"$toInt": "42"}, 42),
    ({"$type": "$missing"}, "missing"),
    ({"$convert": {"input": "x", "to": "int", "onError": -1}}, -1),
    ({"$toHashedIndexKey": 42}, -944302157085130861),
]

REFUSED = [
    ([{"$nonsense": {}}], 40324),
    ([{"$project": {"x": {"$nonsense": 1}}}], 31325),
    ([{"$group": {"total": {"$sum": 1}}}], 15955),
    ([{"$match": {}, "$limit": 1}], 40323),
    ([{"$limit": 0}], 15958),
    ([{"$project": {"x": {"$divide": [1, 0]}}}], 2),
]


def walk(place, report):
    c = place.collection(*SALES)
    place.database["labels"].insert_many([
        {"_id": "a", "label": "Apple", "tags": ["x"]}, {"_id": "b", "label": "Bread", "tags": ["x", "y"]},
        {"_id": "c", "label": "Cake", "tags": []}])
    for pipeline, expected in PIPELINES:
        report.check(f"pipeline {pipeline}", expected, lambda: list(c.aggregate(pipeline)))
    for pipeline, code in REFUSED:
        report.check(f"refused pipeline {pipeline}", Refused(code), lambda: list(c.aggregate(pipeline)))
    one = place.collection({"n": 7, "t": "Hello", "l": [3, 1, 2], "d": {"x": 1}})
    for expression, expected in EXPRESSIONS:
        report.check(f"expression {expression}", expected, lambda: next(one.aggregate(
            [{"$project": {"_id": 0, "value": expression}}]))["value"])
    report.check("$unwind: with index, keeping the empty", [
        {"tags": "x", "at": 0}, {"tags": "x", "at": 0}, {"tags": "y", "at": 1}, {"at": None}], lambda: list(
            place.database["labels"].aggregate([{"$sort": {"_id": 1}}, {"$unwind": {
                "path": "$tags", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": True}},
                {"$project": {"_id": 0, "tags": 1, "at": 1}}])))
    report.check("$out replaces", [{"_id": 1}], lambda: (place.database["target"].insert_one({"_id": 9}), c.aggregate(
        [{"$match": {"_id": 1}}, {"$project": {"_id": 1}}, {"$out": "target"}]), list(place.database["target"].find()))[2])
    report.check("$merge adds", [{"_id": 1, "seen": True}, {"_id": 2, "seen": True}], lambda: (c.aggregate([
        {"$match": {"_id": {"$lte": 2}}}, {"$project": {"seen": {"$literal": True}}},
        {"$merge": {"into": "target", "whenMatched": "merge"}}]), list(place.database["target"].find().sort("_id")))[1])
