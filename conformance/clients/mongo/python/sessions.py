"""Sessions, and writes that a client may send twice."""

from bson import Binary, Int64
from uuid import uuid4

from checks import Refused


def walk(place, report):
    database, c = place.database, place.collection({"_id": 1, "n": 0})
    with place.client.start_session() as session:
        report.check("a session is used by every command", 1,
                     lambda: c.count_documents({"_id": 1}, session=session))
        report.check("causal consistency: the session has a time", True, lambda: (
            c.insert_one({"_id": 2}, session=session), session.operation_time is not None)[1])
    with place.client.start_session(snapshot=True) as session:
        walk_snapshot(place.collection({"_id": 1, "n": 1}, {"_id": 2, "n": 2}), session, report)
    report.check("startSession", 30, lambda: database.command("startSession")["timeoutMinutes"])
    report.check("endSessions", 1.0, lambda: database.command(
        "endSessions", [{"id": Binary(uuid4().bytes, 4)}])["ok"])
    # Another client's first session has no number yet.
    client = place.connect()
    with client.start_session() as session:
        walk_retries(client[place.name], c, session, report)
    client.close()


def walk_snapshot(c, session, report):
    report.check("a snapshot session: its first read", [1, 2],
                 lambda: [each["n"] for each in c.find(session=session)])
    report.check("a snapshot session reads that moment, whatever is written", ([1, 2], [1, 2], 3, 2), lambda: (
        c.update_many({}, {"$set": {"n": 9}}),
        (c.distinct("n", session=session),
         [each["n"] for each in c.find(batch_size=1, session=session)],
         list(c.aggregate([{"$group": {"_id": 0, "n": {"$sum": "$n"}}}], session=session))[0]["n"],
         c.count_documents({}, session=session)))[1])
    report.check("outside of it there is what was written", [9], lambda: c.distinct("n"))
    report.check("a snapshot session lists nothing", Refused(72),
                 lambda: list(c.list_indexes(session=session)))


def walk_retries(database, c, session, report):
    increment = {"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}
    update = lambda number: database.command(
        "update", c.name, updates=[increment], session=session, txnNumber=Int64(number))
    report.check("a write sent twice is done once", (1, 1, [0], 1), lambda: (
        update(1)["n"], (again := update(1))["n"], again["retriedStmtIds"], c.find_one(1)["n"]))
    report.check("the next number is another write", 2, lambda: (update(2), c.find_one(1)["n"])[1])
    report.check("an older number", Refused(225), lambda: update(1))
    report.check("findAndModify sent twice", (2, 2, 3), lambda: (
        modify(database, c, session)["value"]["n"], modify(database, c, session)["value"]["n"], c.find_one(1)["n"]))
    report.check("an insert sent twice", (1, 1, 1), lambda: (
        insert(database, c, session)["n"], insert(database, c, session)["n"], c.count_documents({"_id": "once"})))
    report.check("many cannot be retried", Refused(72), lambda: database.command(
        "update", c.name, updates=[increment | {"multi": True}], session=session, txnNumber=Int64(9)))
    report.check("no such command can be retried", Refused(50768), lambda: database.command(
        "find", c.name, session=session, txnNumber=Int64(10)))


def modify(database, c, session):
    return database.command("findAndModify", c.name, query={"_id": 1}, update={"$inc": {"n": 1}},
                            session=session, txnNumber=Int64(3))


def insert(database, c, session):
    return database.command("insert", c.name, documents=[{"_id": "once"}], session=session, txnNumber=Int64(4))
