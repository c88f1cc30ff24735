"""Tables: create, list, delete, and what is said of those that are not there."""

from checks import Refused


def walk(account, report):
    service, check = account.service, report.check
    name = account.new_name()

    check("create", name, lambda: service.create_table(name).table_name)
    check("create again is refused", Refused(409, "TableAlreadyExists"),
          lambda: service.create_table(name))
    check("create if it is not there", name,
          lambda: service.create_table_if_not_exists(name).table_name)
    walk_case(account, report, name)
    check("list", True, lambda: name in names(service.list_tables()))

    check("delete", None, lambda: service.delete_table(name))
    check("delete again is no error to the SDK", None, lambda: service.delete_table(name))
    check("the answer to delete again", 404, lambda: account.answers.last.status_code)
    check("a deleted table is not listed", False,
          lambda: name in names(service.list_tables()))
    check("a table made again is empty", [],
          lambda: list(service.create_table(name).list_entities()))

    walk_list(account, report)
    walk_preferences(account, report)
    walk_missing(account, report)
    walk_names(account, report)


def walk_case(account, report, name):
    service, other = account.service, name.upper()
    entity = {"PartitionKey": "p", "RowKey": "r"}
    if account.cosmos:
        report.check("another case names another table", other,
                     lambda: service.create_table(other).table_name)
        service.delete_table(other)
        return
    report.check("create again in another case is refused",
                 Refused(409, "TableAlreadyExists"), lambda: service.create_table(other))
    report.check("another case names the same table", name,
                 lambda: account.table_as(account.key, other).create_entity(entity) and name)


def walk_names(account, report):
    service, unique = account.service, account.new_name()
    valid, invalid = ["n" * 63], ["ab", "a" * 64, "1abc", "a-b-c", "tables"]
    if account.cosmos:
        valid = ["n" * 254, "1" + unique, unique + "-b c"]
        invalid = ["a" * 255, "a/b", "a\\b", "a#b", "a?b", "a "]

    def made_and_removed(name):
        service.create_table(name)
        service.delete_table(name)

    for name in valid:
        report.check(f"the name {name.replace(unique, 'NAME')[:10]} is fine", None,
                     lambda name=name: made_and_removed(name))
    def refused(name):
        try:
            return service.create_table(name)
        except ValueError:
            # Raised by the SDK when it finds the fault itself after a refusal.
            return Refused(400, "InvalidResourceName")

    for name in invalid:
        report.check(f"the name {name[:10]} is refused",
                     Refused(400, "InvalidInput", "InvalidResourceName"),
                     lambda name=name: refused(name))


def walk_list(account, report):
    service, check = account.service, report.check
    made = sorted(account.new_table().table_name for _ in range(5))
    mine = f"TableName ge '{made[0]}' and TableName le '{made[-1]}'"

    check("filter by name", [made[2]],
          lambda: names(service.query_tables(f"TableName eq '{made[2]}'")))
    check("filter with a parameter", [made[1]],
          lambda: names(service.query_tables("TableName eq @name", parameters={"name": made[1]})))
    check("filter by range, in order", made, lambda: names(service.query_tables(mine)))
    check("pages", [made[:2], made[2:4], made[4:]],
          lambda: [names(page) for page in
                   service.query_tables(mine, results_per_page=2).by_page() if page])
    check("a bad filter is refused", Refused(400, "InvalidInput"),
          lambda: names(service.query_tables("TableName is fine")))

    def page_after_the_first():
        first = service.query_tables(mine, results_per_page=2).by_page()
        next(first)
        token = first.continuation_token
        return names(next(service.query_tables(mine, results_per_page=2).by_page(token)))

    check("go on from a continuation", made[2:4], page_after_the_first)


def walk_preferences(account, report):
    def applied(**headers):
        account.service.create_table(account.new_name(), headers=headers)
        return account.answers.last.status_code, account.answers.header("Preference-Applied")

    for name, headers, expected in [
        ("no Preference-Applied unless asked", {}, (201, None)),
        ("Prefer return-content", {"Prefer": "return-content"}, (201, "return-content")),
        ("Prefer return-no-content", {"Prefer": "return-no-content"},
         (204, "return-no-content")),
    ]:
        report.check(name, expected, lambda headers=headers: applied(**headers))


def walk_missing(account, report):
    missing = account.service.get_table_client(account.new_name())
    entity = {"PartitionKey": "p", "RowKey": "r"}
    for name, action in [
        ("insert", lambda: missing.create_entity(entity)),
        ("query", lambda: list(missing.list_entities())),
        ("update", lambda: missing.update_entity(entity)),
        ("upsert", lambda: missing.upsert_entity(entity)),
        ("transaction", lambda: missing.submit_transaction([("create", entity)])),
        ("access policies", lambda: missing.get_table_access_policy()),
    ]:
        if account.cosmos and name == "access policies":
            continue
        index = 0 if name == "transaction" else None
        report.check(f"{name} in a missing table is refused",
                     Refused(404, "TableNotFound", "ResourceNotFound", index=index), action)
    report.check("get in a missing table is refused",
                 Refused(404, "TableNotFound", "ResourceNotFound"),
                 lambda: missing.get_entity("p", "r"))


def names(tables):
    return [table.name for table in tables]
