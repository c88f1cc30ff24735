"""Entity group transactions: all or nothing, and which operation it was."""

from azure.core import MatchConditions
from azure.data.tables import RequestTooLargeError, UpdateMode

from checks import Refused, outcome
from report import Matches


def entity(row, **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


def walk(account, report):
    table = account.new_table()
    walk_success(table, report)
    walk_failures(table, report)
    walk_limits(account.new_table(), report)


def walk_success(table, report):
    for row in ("merged", "replaced", "deleted", "kept"):
        table.create_entity(entity(row, a=1))
    etag = table.get_entity("p", "kept").metadata["etag"]
    operations = [
        ("create", entity("created", b=2)),
        ("update", entity("merged", b=2), {"mode": UpdateMode.MERGE}),
        ("update", entity("replaced", b=2), {"mode": UpdateMode.REPLACE}),
        ("upsert", entity("upserted", b=2), {"mode": UpdateMode.MERGE}),
        ("upsert", entity("put", b=2), {"mode": UpdateMode.REPLACE}),
        ("delete", entity("deleted")),
        ("update", entity("kept", b=2),
         {"etag": etag, "match_condition": MatchConditions.IfNotModified}),
    ]
    report.check("every operation at once",
                 Matches("seven answers, ETags for all but the delete", lambda answers:
                         [bool(answer.get("etag")) for answer in answers]
                         == [True] * 5 + [False, True]),
                 lambda: table.submit_transaction(operations))
    report.check("what they left behind", {
        "created": {"b": 2}, "kept": {"a": 1, "b": 2}, "merged": {"a": 1, "b": 2},
        "put": {"b": 2}, "replaced": {"b": 2}, "upserted": {"b": 2},
    }, lambda: {each["RowKey"]: {name: each[name] for name in "ab" if name in each}
                for each in table.list_entities()})
    report.check("the ETags are those of the entities", True,
                 lambda: table.submit_transaction([("upsert", entity("put", b=3))])[0]["etag"]
                 == table.get_entity("p", "put").metadata["etag"])


def walk_failures(table, report):
    stale = table.get_entity("p", "kept").metadata["etag"]
    table.update_entity(entity("kept", b=3))
    only_if = {"etag": stale, "match_condition": MatchConditions.IfNotModified}
    new = ("create", entity("new"))
    for name, operations, expected in [
        ("an entity that exists", [new, ("create", entity("kept"))],
         Refused(409, "EntityAlreadyExists", index=1)),
        ("the first of two", [("create", entity("kept")), new],
         Refused(409, "EntityAlreadyExists", index=0)),
        ("an update of nothing", [new, ("upsert", entity("new 2")), ("update", entity("nothing"))],
         Refused(404, "ResourceNotFound", index=2)),
        ("a delete of nothing", [new, ("delete", entity("nothing"))],
         Refused(404, "ResourceNotFound", index=1)),
        ("a stale ETag", [new, ("update", entity("kept"), only_if)],
         Refused(412, "UpdateConditionNotSatisfied", index=1)),
        ("one row twice", [new, ("upsert", entity("new"))],
         Refused(400, "InvalidDuplicateRow", index=1)),
        ("a key that is not allowed", [new, ("create", entity("a/b"))],
         Refused(400, "InvalidInput", "OutOfRangeInput", index=1)),
    ]:
        report.check(f"{name} is refused", expected,
                     lambda operations=operations: table.submit_transaction(operations))
        report.check(f"{name} undoes all", Refused(404, "ResourceNotFound"),
                     lambda: table.get_entity("p", "new"))


def walk_limits(table, report):
    def many(count):
        return [("upsert", entity(f"{number:03}")) for number in range(count)]

    report.check("100 operations", 100,
                 lambda: len(table.submit_transaction(many(100))))
    report.check("101 operations are refused",
                 Matches("400 InvalidInput", lambda refused: isinstance(refused, Refused)
                         and refused.status == 400 and "InvalidInput" in refused.codes),
                 lambda: table.submit_transaction(many(101)))

    def too_large():
        large = {f"text{number}": "x" * 30000 for number in range(15)}
        try:
            return table.submit_transaction(
                [("upsert", entity(str(number), **large)) for number in range(10)])
        except RequestTooLargeError as error:
            return error.status_code

    report.check("more than 4 MiB are refused", 413, lambda: outcome(too_large))
