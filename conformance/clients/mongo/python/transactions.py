"""Transactions over several collections: all or nothing, and who must step back."""

from bson import Int64

from checks import Refused


def walk(place, report):
    a, b = place.collection({"_id": 1, "n": 10}), place.collection({"_id": 1, "n": 0})
    client = place.client
    with client.start_session() as session:
        report.check("what is written is seen within", (9, 10), lambda: (session.start_transaction(), a.update_one(
            {"_id": 1}, {"$inc": {"n": -1}}, session=session), a.find_one(1, session=session)["n"], a.find_one(1)["n"])[2:])
        b.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        report.check("after the commit everybody sees both", (9, 1), lambda: (
            session.commit_transaction(), a.find_one(1)["n"], b.find_one(1)["n"])[1:])
        report.check("a commit may be repeated", None, session.commit_transaction)
        report.check("an abort leaves nothing", (9, 0), lambda: (session.start_transaction(), a.delete_many(
            {}, session=session), b.insert_one({"_id": 2}, session=session), session.abort_transaction(), a.find_one(
                1)["n"], b.count_documents({"_id": 2}))[4:])
        report.check("reads are of one moment", (9, 9, 100), lambda: (session.start_transaction(), a.find_one(
            1, session=session)["n"], a.update_one({"_id": 1}, {"$set": {"n": 100}}), a.find_one(1, session=session)["n"],
            session.commit_transaction(), a.find_one(1)["n"])[1::2])
    walk_conflicts(client, a, report)
    report.check("with_transaction: two that meet both succeed", 102, lambda: (
        run(client, a), run(client, a), a.find_one(1)["n"])[2])
    walk_refusals(place, a, report)


def walk_conflicts(client, a, report):
    def conflict():
        with client.start_session() as first, client.start_session() as second:
            first.start_transaction()
            second.start_transaction()
            a.update_one({"_id": 1}, {"$set": {"by": 1}}, session=first)
            try:
                a.update_one({"_id": 1}, {"$set": {"by": 2}}, session=second)
            finally:
                first.commit_transaction()

    report.check("the second writer is told at once", Refused(112, "TransientTransactionError"), conflict)
    report.check("the first writer won", 1, lambda: a.find_one(1)["by"])


def run(client, a):
    with client.start_session() as session:
        session.with_transaction(lambda session: a.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session))


def walk_refusals(place, a, report):
    with place.client.start_session() as session:
        number = Int64(77)
        raw = {"lsid": session.session_id, "txnNumber": number, "autocommit": False}
        report.check("no such transaction", Refused(251, "TransientTransactionError"),
                     lambda: place.client.admin.command("commitTransaction", **raw))
        report.check("a statement of no transaction", Refused(251),
                     lambda: place.database.command("find", a.name, **raw))

    def forbidden():
        with place.client.start_session() as session, session.start_transaction():
            place.database.command("dropDatabase", session=session)

    report.check("what no transaction may do", Refused(263), forbidden)
