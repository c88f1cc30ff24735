"""Answers in several batches."""

from bson import Int64
from pymongo import CursorType

from checks import Refused
from report import Matches


def walk(place, report):
    c = place.collection(*({"_id": n} for n in range(250)))
    first = lambda: place.database.command("find", c.name)["cursor"]
    report.check("find: the first batch has 101", (101, f"{place.name}.{c.name}", True), lambda: (
        lambda cursor: (len(cursor["firstBatch"]), cursor["ns"], cursor["id"] > 0))(first()))
    report.check("getMore: the rest, and no cursor any more", (149, 0), lambda: (
        lambda cursor: (len(cursor["nextBatch"]), cursor["id"]))(more(place, c, first()["id"])))
    report.check("all batches, in order", list(range(250)),
                 lambda: [each["_id"] for each in c.find(batch_size=7)])
    report.check("an empty first batch", (0, True), lambda: (lambda cursor: (
        len(cursor["firstBatch"]), cursor["id"] > 0))(place.database.command(
            "find", c.name, batchSize=0)["cursor"]))
    report.check("singleBatch ends the cursor", (3, 0), lambda: (lambda cursor: (
        len(cursor["firstBatch"]), cursor["id"]))(place.database.command(
            "find", c.name, batchSize=3, singleBatch=True)["cursor"]))
    report.check("limit ends the cursor", (5, 0), lambda: (lambda cursor: (
        len(cursor["firstBatch"]), cursor["id"]))(place.database.command(
            "find", c.name, limit=5)["cursor"]))
    report.check("getMore: no such cursor", Refused(43), lambda: more(place, c, Int64(12345)))
    report.check("getMore: another collection", Refused(13),
                 lambda: more(place, place.collection({}), first()["id"]))
    report.check("killCursors", 1, lambda: len(place.database.command(
        "killCursors", c.name, cursors=[first()["id"]])["cursorsKilled"]))
    report.check("killCursors: no such cursor", 1, lambda: len(place.database.command(
        "killCursors", c.name, cursors=[Int64(12345)])["cursorsNotFound"]))
    report.check("maxTimeMS ends what takes longer", Refused(50), lambda: place.database.command(
        "aggregate", c.name, pipeline=[product(c, product(c))], cursor={}, maxTimeMS=5))
    report.check("maxTimeMS leaves alone what does not", 250,
                 lambda: len(list(c.find(max_time_ms=60000))))
    report.check("a cursor outlives writes beside it", 250, lambda: beside_writes(c))
    capped = place.database.create_collection("capped", capped=True, size=100000, max=3)
    capped.insert_many({"_id": n} for n in range(5))
    report.check("capped: the newest stay, in their order", [2, 3, 4],
                 lambda: [each["_id"] for each in capped.find()])
    report.check("capped: a cursor that waits", Matches("3 then 5", lambda ids: ids == [2, 3, 4, 5]),
                 lambda: tail(capped))


def more(place, c, cursor):
    return place.database.command("getMore", cursor, collection=c.name)["cursor"]


def product(c, *stages):
    """Each document with all documents, found again for each."""
    return {"$lookup": {"from": c.name, "let": {"n": "$_id"}, "as": "all", "pipeline": [
        {"$match": {"$expr": {"$gte": ["$_id", {"$multiply": ["$$n", 0]}]}}}, *stages]}}


def beside_writes(c):
    cursor = c.find(batch_size=50)
    seen = [next(cursor)]
    c.update_many({}, {"$set": {"touched": True}})
    return len(seen + list(cursor))


def tail(capped):
    cursor = capped.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(500)
    seen = [next(cursor)["_id"] for _ in range(3)]
    capped.insert_one({"_id": 5})
    return seen + [next(cursor)["_id"]]
