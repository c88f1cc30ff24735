"""Indexes: made, used, refused; and what collections may be asked to be."""

import datetime
import time

from pymongo import IndexModel

from checks import Refused
from report import Matches


def walk(place, report):
    walk_kinds(place, report)
    walk_plans(place, report)
    walk_collections(place, report)


def walk_kinds(place, report):
    c = place.collection({"_id": 1, "a": 1, "b": [1, 2]}, {"_id": 2, "a": 2})
    report.check("createIndex: its name", "a_1", lambda: c.create_index("a"))
    report.check("createIndex: again is the same", "a_1", lambda: c.create_index("a"))
    report.check("createIndex: same name, other key", Refused(86),
                 lambda: c.create_index("b", name="a_1"))
    report.check("createIndexes: several", ["a_1_b_-1", "b_1", "h_hashed", "$**_1"], lambda: c.create_indexes([
        IndexModel([("a", 1), ("b", -1)]), IndexModel("b", sparse=True), IndexModel([("h", "hashed")]),
        IndexModel([("$**", 1)])]))
    report.check("listIndexes", ["$**_1", "_id_", "a_1", "a_1_b_-1", "b_1", "h_hashed"],
                 lambda: sorted(index["name"] for index in c.list_indexes()))
    report.check("dropIndex", False, lambda: (c.drop_index("b_1"), "b_1" in c.index_information())[1])
    report.check("dropIndex: no such", Refused(27), lambda: c.drop_index("nonsense_1"))
    report.check("dropIndex: not that of the id", Refused(72), lambda: c.drop_index("_id_"))
    report.check("unique: refused while two are equal", Refused(11000), lambda: place.collection(
        {"u": 1}, {"u": 1}).create_index("u", unique=True))
    u = place.collection({"_id": 1, "u": 1}, {"_id": 2})
    u.create_index("u", unique=True)
    report.check("unique: a second value", Refused(11000), lambda: u.insert_one({"u": 1}))
    report.check("unique: a second missing one", Refused(11000), lambda: u.insert_one({"x": 1}))
    report.check("unique: by update", Refused(11000), lambda: u.update_one({"_id": 2}, {"$set": {"u": 1}}))
    p = place.collection()
    p.create_index("u", unique=True, partialFilterExpression={"live": True})
    report.check("partial: only what it names must be unique", Refused(11000), lambda: (
        p.insert_many([{"u": 1}, {"u": 1}, {"u": 1, "live": True}]), p.insert_one({"u": 1, "live": True}))[1])
    t = place.collection()
    t.create_index("at", expireAfterSeconds=1)
    past = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=10)
    report.check("TTL: what is too old is gone", [2], lambda: (t.insert_many(
        [{"_id": 1, "at": past}, {"_id": 2, "at": "no date"}]), until(lambda: t.distinct("_id"), [2]))[1])
    report.check("an index of nonsense", Refused(67), lambda: c.create_index([("a", "nonsense")]))
    report.check("two arrays in one index", Refused(171), lambda: c.insert_one({"a": [1], "b": [2]}))


def until(read, wanted, seconds=70):
    """What `read` answers, as soon as it is what is wanted, or after so many seconds."""
    end = time.monotonic() + seconds
    while (found := read()) != wanted and time.monotonic() < end:
        time.sleep(0.2)
    return found


def walk_plans(place, report):
    c = place.collection(*({"_id": n, "a": n % 100, "b": n} for n in range(1000)))
    c.create_index([("a", 1), ("b", 1)])
    report.check("explain: a scan", ("COLLSCAN", 1000, 0, 1), lambda: plan(place, c, {"b": 5}))
    report.check("explain: by id", (1, 1), lambda: plan(place, c, {"_id": 7})[1:3])
    report.check("explain: an equality examines what it returns", ("IXSCAN", 10, 10, 10),
                 lambda: plan(place, c, {"a": 7}))
    report.check("explain: a range within", ("IXSCAN", 5, 5, 5),
                 lambda: plan(place, c, {"a": 7, "b": {"$gte": 500}}))
    report.check("explain: order by index, no sort", False,
                 lambda: "SORT" in stages(place, c, {"a": 7}, sort={"b": -1}))
    report.check("explain: another order is sorted", True,
                 lambda: "SORT" in stages(place, c, {"a": 7}, sort={"c": 1}))
    report.check("hint: an index that is not there", Refused(2), lambda: list(c.find({}).hint("nonsense")))
    report.check("hint: natural", "COLLSCAN",
                 lambda: plan(place, c, {"a": 7}, hint={"$natural": 1})[0])


def explained(place, c, filter_, **options):
    find = {"find": c.name, "filter": filter_} | options
    return place.database.command("explain", find, verbosity="executionStats")


def stages(place, c, filter_, **options):
    """The names of all stages, outermost first."""
    return stage_names(explained(place, c, filter_, **options)["queryPlanner"]["winningPlan"])


def stage_names(plan_):
    inner = plan_.get("inputStage")
    shards = [name for shard in plan_.get("shards", []) for name in stage_names(shard["winningPlan"])]
    return [plan_["stage"]] + (stage_names(inner) if inner else []) + shards


def plan(place, c, filter_, **options):
    """The innermost stage, documents and keys examined, documents returned."""
    answer = explained(place, c, filter_, **options)
    statistics = answer["executionStats"]
    return (stage_names(answer["queryPlanner"]["winningPlan"])[-1], statistics["totalDocsExamined"],
            statistics["totalKeysExamined"], statistics["nReturned"])


def walk_collections(place, report):
    database = place.database
    report.check("create, and again", Refused(48), lambda: (
        database.command("create", "made", capped=True, size=4096), database.command("create", "made"))[1])
    v = database.create_collection("valid", validator={"$jsonSchema": {
        "required": ["name"], "properties": {"age": {"bsonType": "int", "minimum": 0}}}})
    report.check("validator: a good document", 1, lambda: v.insert_one({"_id": 1, "name": "x", "age": 3}).inserted_id)
    report.check("validator: a bad document", Refused(121), lambda: v.insert_one({"name": "x", "age": -1}))
    report.check("validator: a bad update", Refused(121), lambda: v.update_one({"_id": 1}, {"$unset": {"name": ""}}))
    report.check("collMod: the validator goes", True, lambda: (database.command(
        "collMod", "valid", validator={}), v.insert_one({}).acknowledged)[1])
    view = place.collection({"_id": 1, "n": 1}, {"_id": 2, "n": 2})
    database.command("create", "view", viewOn=view.name, pipeline=[{"$match": {"n": {"$gt": 1}}}])
    report.check("view: find", [{"_id": 2, "n": 2}], lambda: list(database["view"].find()))
    report.check("view: no writes", Refused(166), lambda: database["view"].insert_one({}))
    report.check("rename", (1, False), lambda: (database.create_collection("old").insert_one({}), database["old"].rename(
        "new"), database["new"].count_documents({}), "old" in database.list_collection_names())[2:])
    report.check("drop: no such collection is no error", 1.0,
                 lambda: database.command("drop", "never")["ok"])
    report.check("listCollections: kinds", {"view": "view", "valid": "collection"}, lambda: {
        each["name"]: each["type"] for each in database.list_collections(filter={"name": {"$in": ["view", "valid"]}})})
    report.check("listDatabases has this one", True, lambda: place.name in place.client.list_database_names())
    report.check("collStats counts", (1000, 2), lambda: (lambda c: (c.insert_many({} for _ in range(1000)), c.create_index(
        "x"), (lambda stats: (stats["count"], stats["nindexes"]))(database.command("collStats", c.name)))[2])(place.collection()))
    report.check("dbStats counts", Matches("objects", lambda stats: stats["objects"] >= 1000
                                           and stats["collections"] > 3), lambda: database.command("dbStats"))
