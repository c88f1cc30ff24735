"""Entities: insert, get, replace, merge, upsert, delete, and the conditions on them."""

import re

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from checks import Refused
from report import Matches

ETAG = re.compile(r"""W/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d\.\d{1,7}Z'"$""")
NOT_THERE = Refused(404, "ResourceNotFound")
STALE = Refused(412, "UpdateConditionNotSatisfied")

# Keys that need care in URLs, in filters or in JSON.
KEYS = [
    "", " ", "it's", "''", "a b+c", "100%", "%27", "a&b=c", "a,b", "(a)", "\"", "<x>", "ä ö ü",
    "日本", "😀", "a:b;c@d!$*~", "[{}]|^`",
]


def walk(account, report):
    table = account.new_table()
    walk_insert(account, table, report)
    walk_update(table, report)
    walk_upsert(table, report)
    walk_conditions(table, report)
    for key in [*KEYS, "x" * (255 if account.cosmos else 512)]:
        report.check(f"the keys {key[:20]!r}", key * 2,
                     lambda key=key: there_and_back(table, key))


def entity(row, **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


def walk_insert(account, table, report):
    check, answers = report.check, account.answers

    check("insert gives an ETag",
          Matches("an ETag made of a time", lambda made: ETAG.match(made["etag"])),
          lambda: table.create_entity(entity("insert", a=1, b="two")))
    check("insert again is refused", Refused(409, "EntityAlreadyExists"),
          lambda: table.create_entity(entity("insert")))
    check("get", entity("insert", a=1, b="two"), lambda: table.get_entity("p", "insert"))
    check("get only some properties", {"b": "two"},
          lambda: table.get_entity("p", "insert", select=["b"]))
    check("get what is not there", NOT_THERE, lambda: table.get_entity("p", "nothing"))
    check("the ETag is the one of the insert", True,
          lambda: table.create_entity(entity("etag"))["etag"]
          == table.get_entity("p", "etag").metadata["etag"])

    def applied(row, **headers):
        table.create_entity(entity(row), headers=headers)
        return answers.last.status_code, answers.header("Preference-Applied")

    check("no Preference-Applied unless asked", (201, None), lambda: applied("1"))
    check("Prefer return-content", (201, "return-content"),
          lambda: applied("2", Prefer="return-content"))
    check("Prefer return-no-content", (204, "return-no-content"),
          lambda: applied("3", Prefer="return-no-content"))


def walk_update(table, report):
    check = report.check
    table.create_entity(entity("update", a=1, b=1))

    def updated(mode, **properties):
        table.update_entity(entity("update", **properties), mode=mode)
        return table.get_entity("p", "update")

    check("merge keeps other properties", entity("update", a=1, b=2, c=2),
          lambda: updated(UpdateMode.MERGE, b=2, c=2))
    check("merge leaves alone what is null", entity("update", a=1, b=2, c=2),
          lambda: updated(UpdateMode.MERGE, a=None))
    check("merge may change a type", entity("update", a="one", b=2, c=2),
          lambda: updated(UpdateMode.MERGE, a="one"))
    check("replace drops other properties", entity("update", d=3),
          lambda: updated(UpdateMode.REPLACE, d=3))
    for mode in UpdateMode:
        check(f"{mode.value} of what is not there is refused", NOT_THERE,
              lambda mode=mode: table.update_entity(entity("nothing"), mode=mode))


def walk_upsert(table, report):
    def upserted(row, mode, **properties):
        table.upsert_entity(entity(row, **properties), mode=mode)
        return table.get_entity("p", row)

    for mode, second in [(UpdateMode.MERGE, {"a": 1, "b": 2}), (UpdateMode.REPLACE, {"b": 2})]:
        row = f"upsert {mode.value}"
        report.check(f"{row} inserts", entity(row, a=1),
                     lambda: upserted(row, mode, a=1))
        report.check(f"{row} updates", entity(row, **second),
                     lambda: upserted(row, mode, b=2))


def walk_conditions(table, report):
    check = report.check
    first = table.create_entity(entity("etag row", n=1))["etag"]
    second = table.update_entity(entity("etag row", n=2))["etag"]
    only_if = {"match_condition": MatchConditions.IfNotModified}

    check("every write changes the ETag", True, lambda: first != second)
    for mode in UpdateMode:
        check(f"{mode.value} with a stale ETag is refused", STALE,
              lambda mode=mode: table.update_entity(entity("etag row", n=3), mode=mode, etag=first,
                                                    **only_if))
    check("what was refused changed nothing", 2,
          lambda: table.get_entity("p", "etag row")["n"])
    check("replace with the ETag", Matches("a new ETag", lambda etag: etag != second),
          lambda: table.update_entity(entity("etag row", n=4), mode=UpdateMode.REPLACE,
                                      etag=second, **only_if)["etag"])
    check("delete with a stale ETag is refused", STALE,
          lambda: table.delete_entity("p", "etag row", etag=second, **only_if))

    def deleted():
        current = table.get_entity("p", "etag row").metadata["etag"]
        table.delete_entity("p", "etag row", etag=current, **only_if)
        return table.get_entity("p", "etag row")

    check("delete with the ETag", NOT_THERE, deleted)
    check("delete what is not there is no error to the SDK", None,
          lambda: table.delete_entity("p", "etag row"))
    table.create_entity(entity("any"))
    check("delete without a condition", None, lambda: table.delete_entity("p", "any"))
    check("a hundred writes, a hundred ETags", 100,
          lambda: len({table.upsert_entity(entity("often"))["etag"] for _ in range(100)}))


def there_and_back(table, key):
    """Writes, finds by a filter, reads and deletes an entity whose keys are both this text."""
    table.create_entity({"PartitionKey": key, "RowKey": key})
    found = list(table.query_entities("PartitionKey eq @key and RowKey eq @key",
                                      parameters={"key": key}))
    read = table.get_entity(key, key)
    table.delete_entity(key, key)
    assert len(found) == 1 and found[0]["RowKey"] == key, f"the filter found {found}"
    return read["PartitionKey"] + read["RowKey"]
