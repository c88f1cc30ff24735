"""Every operator of updates: what it makes of a document, and what it refuses."""

import datetime

from bson import Decimal128, Int64

from checks import Refused
from report import Matches

START = {"_id": 1, "n": 5, "t": "x", "list": [1, 2, 3], "docs": [{"k": 1, "v": 1}, {"k": 2, "v": 2}],
         "sub": {"a": 1}}

# An update, and the fields that differ afterwards; None for those that are gone.
UPDATES = [
    ({"$set": {"sub.b.c": 1}}, {"sub": {"a": 1, "b": {"c": 1}}}),
    ({"$set": {"list.5": 9}}, {"list": [1, 2, 3, None, None, 9]}),
    ({"$unset": {"t": "", "sub.a": ""}}, {"t": None, "sub": {}}),
    ({"$unset": {"list.1": ""}}, {"list": [1, None, 3]}),
    ({"$inc": {"n": 2, "new": -1}}, {"n": 7, "new": -1}),
    ({"$inc": {"n": 2147483647}}, {"n": Int64(2147483652)}),
    ({"$inc": {"n": Decimal128("0.1")}}, {"n": Decimal128("5.1")}),
    ({"$mul": {"n": 1.5, "zero": 3}}, {"n": 7.5, "zero": 0}),
    ({"$min": {"n": 3}, "$max": {"sub.a": 9}}, {"n": 3, "sub": {"a": 9}}),
    ({"$rename": {"t": "sub.t"}}, {"t": None, "sub": {"a": 1, "t": "x"}}),
    ({"$bit": {"n": {"and": 4}}}, {"n": 4}),
    ({"$bit": {"n": {"xor": 1}}}, {"n": 4}),
    ({"$push": {"list": 4}}, {"list": [1, 2, 3, 4]}),
    ({"$push": {"list": {"$each": [0, 9], "$position": 1}}}, {"list": [1, 0, 9, 2, 3]}),
    ({"$push": {"list": {"$each": [5, 0], "$sort": -1, "$slice": 3}}}, {"list": [5, 3, 2]}),
    ({"$push": {"docs": {"$each": [{"k": 0, "v": 0}], "$sort": {"k": 1}}}},
     {"docs": [{"k": 0, "v": 0}, {"k": 1, "v": 1}, {"k": 2, "v": 2}]}),
    ({"$addToSet": {"list": {"$each": [2, 7, 7]}}}, {"list": [1, 2, 3, 7]}),
    ({"$pop": {"list": -1}}, {"list": [2, 3]}),
    ({"$pull": {"list": {"$gte": 2}}}, {"list": [1]}),
    ({"$pull": {"docs": {"k": 1}}}, {"docs": [{"k": 2, "v": 2}]}),
    ({"$pullAll": {"list": [1, 3]}}, {"list": [2]}),
    ({"$set": {"docs.$[].v": 0}}, {"docs": [{"k": 1, "v": 0}, {"k": 2, "v": 0}]}),
    ([{"$set": {"n": {"$add": ["$n", 1]}, "seen": "$n"}}, {"$unset": "t"}], {"n": 6, "seen": 5, "t": None}),
    ([{"$replaceWith": {"_id": "$_id", "only": 1}}],
     {"only": 1, "n": None, "t": None, "list": None, "docs": None, "sub": None}),
]

REFUSED = [
    ({"$set": {"n": 1}, "$inc": {"n": 1}}, 40),
    ({"$set": {"sub": 1, "sub.a": 2}}, 40),
    ({"$nonsense": {"n": 1}}, 9),
    ({"$inc": {"t": 1}}, 14),
    ({"$inc": {"n": "1"}}, 14),
    ({"$set": {"t.x": 1}}, 28),
    ({"$push": {"n": 1}}, 2),
    ({"$pop": {"list": 2}}, 9),
    ({"$rename": {"t": "t"}}, 2),
    ({"$set": {"docs.$.v": 1}}, 2),
    ({"$set": {"docs.$[x].v": 1}}, 2),
]


def walk(place, report):
    c = place.collection()
    for update, changes in UPDATES:
        after = {name: value for name, value in (START | changes).items() if value is not None}
        report.check(f"update {update}", after, lambda: changed(c, update))
    for update, code in REFUSED:
        report.check(f"refused update {update}", Refused(code), lambda: changed(c, update))
    report.check("update by position", [{"k": 1, "v": 1}, {"k": 2, "v": 7}], lambda: (
        start(c), c.update_one({"docs.k": 2}, {"$set": {"docs.$.v": 7}}), c.find_one()["docs"])[2])
    report.check("update by array filter", [{"k": 1, "v": 1}, {"k": 2, "v": 7}], lambda: (start(c), c.update_one(
        {}, {"$set": {"docs.$[some].v": 7}}, array_filters=[{"some.k": {"$gt": 1}}]), c.find_one()["docs"])[2])
    report.check("$currentDate", Matches("now, as a date", lambda at: abs(
        datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - at).total_seconds() < 60), lambda: (
            start(c), c.update_one({}, {"$currentDate": {"at": True}}), c.find_one()["at"])[2])
    report.check("$setOnInsert only when inserting", ({"_id": 1, "a": 1}, {"_id": 1, "a": 1}), lambda: (
        c.delete_many({}), upserted(c, 1), upserted(c, 2))[1:])


def start(c):
    c.replace_one({"_id": 1}, START, upsert=True)


def changed(c, update):
    start(c)
    c.update_one({"_id": 1}, update)
    return c.find_one()


def upserted(c, value):
    c.update_one({"_id": 1}, {"$setOnInsert": {"a": value}}, upsert=True)
    return c.find_one()
