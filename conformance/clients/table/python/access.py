"""Access: keys, signatures for the account and for a table, stored policies, tokens."""

import base64
import time
from datetime import timedelta

from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.data.tables import ResourceTypes, TableAccessPolicy

from account import NAME, now, soon
from checks import Refused
from report import Matches

UNAUTHENTICATED = Refused(403, "AuthenticationFailed")
NOT_PERMITTED = Refused(403, "AuthorizationPermissionMismatch")
FORBIDDEN = Matches("403", lambda refused: isinstance(refused, Refused) and refused.status == 403)


def entity(row, partition="p"):
    return {"PartitionKey": partition, "RowKey": row}


def walk(account, report):
    name = account.filled_table([entity("r")]).table_name
    walk_keys(account, report, name)
    walk_account_signatures(account, report, name)
    walk_table_signatures(account, report, name)
    walk_ranges(account, report)
    if not account.cosmos:
        walk_policies(account, report, name)
    if account.is_https:
        walk_tokens(account, report)


def read_as(account, credential, name):
    return account.table_as(credential, name).get_entity("p", "r")["RowKey"]


def walk_keys(account, report, name):
    wrong = base64.b64encode(b"not the key").decode()
    for case, credential, expected in [
        ("the key", account.key, "r"),
        ("a wrong key is refused", AzureNamedKeyCredential(NAME, wrong), UNAUTHENTICATED),
        ("another account is refused", AzureNamedKeyCredential("someone", wrong), FORBIDDEN),
    ]:
        report.check(f"{case}", expected, lambda: read_as(account, credential, name))


def walk_account_signatures(account, report, name):
    hour = timedelta(hours=1)
    for case, options, expected in [
        ("everything", {}, "r"),
        ("reading", {"permission": "r"}, "r"),
        ("only writing", {"permission": "a"}, NOT_PERMITTED),
        ("no more", {"expiry": now() - hour}, UNAUTHENTICATED),
        ("not yet", {"start": now() + hour, "expiry": now() + 2 * hour}, UNAUTHENTICATED),
        ("since an hour", {"start": now() - hour}, "r"),
        ("this address", {"ip_address_or_range": "127.0.0.1"}, "r"),
        ("a range with this address", {"ip_address_or_range": "127.0.0.0-127.0.0.9"}, "r"),
        ("another address", {"ip_address_or_range": "10.0.0.1"},
         Refused(403, "AuthorizationSourceIPMismatch")),
        ("both protocols", {"protocol": "https,http"}, "r"),
        ("HTTPS", {"protocol": "https"},
         "r" if account.is_https else Refused(403, "AuthorizationProtocolMismatch")),
        ("only the service", {"resource_types": ResourceTypes(service=True)},
         Refused(403, "AuthorizationResourceTypeMismatch")),
    ]:
        report.check(f"an account SAS for {case}", expected,
                     lambda: read_as(account, account.account_sas(**options), name))

    reader = account.service_as(account.account_sas(permission="rl"))
    report.check("an account SAS for reading does not create tables", NOT_PERMITTED,
                 lambda: reader.create_table(account.new_name()))
    report.check("an account SAS for listing lists tables", True,
                 lambda: name in [table.name for table in reader.list_tables()])
    writer = account.service_as(account.account_sas())
    report.check("an account SAS for everything makes and removes a table", None,
                 lambda: writer.create_table(account.new_name()).delete_table())
    report.check("an account SAS covers transactions", 2,
                 lambda: len(writer.get_table_client(name).submit_transaction(
                     [("upsert", entity("t1")), ("upsert", entity("t2"))])))


def walk_table_signatures(account, report, name):
    operations = {
        "get": ("r", lambda table: table.get_entity("p", "r") and None),
        "query": ("r", lambda table: list(table.list_entities()) and None),
        "insert": ("a", lambda table: table.create_entity(entity("new")) and None),
        "update": ("u", lambda table: table.update_entity(entity("r")) and None),
        "upsert": ("au", lambda table: table.upsert_entity(entity("r")) and None),
        "delete": ("d", lambda table: table.delete_entity("p", "new")),
    }
    for case, (needed, operation) in operations.items():
        lacking = [letter for letter in "raud" if letter not in needed]
        for permission, expected in [(needed, None), ("".join(lacking), NOT_PERMITTED)]:
            table = account.table_as(account.table_sas(name, permission=permission), name)
            report.check(f"{case} with a table SAS for {permission}", expected,
                         lambda: operation(table))
    other = account.new_table().table_name
    report.check("a table SAS opens no other table", FORBIDDEN,
                 lambda: list(account.table_as(account.table_sas(name), other).list_entities()))
    report.check("a table SAS does not list tables", FORBIDDEN,
                 lambda: list(account.service_as(account.table_sas(name)).list_tables()))
    report.check("a table SAS does not delete its table", FORBIDDEN,
                 lambda: account.table_as(account.table_sas(other), other).delete_table())
    report.check("a table SAS covers transactions", 2,
                 lambda: len(account.table_as(account.table_sas(name), name).submit_transaction(
                     [("upsert", entity("t1")), ("upsert", entity("t2"))])))


def walk_ranges(account, report):
    table = account.filled_table([entity(row, partition) for partition in "abc" for row in "123"])
    name = table.table_name

    def seen(**options):
        client = account.table_as(account.table_sas(name, **options), name)
        return [each["PartitionKey"] + each["RowKey"] for each in client.list_entities()]

    middle = {"start_pk": "a", "start_rk": "2", "end_pk": "b", "end_rk": "2"}
    for case, options, expected in [
        ("from b on", {"start_pk": "b"}, ["b1", "b2", "b3", "c1", "c2", "c3"]),
        ("up to a", {"end_pk": "a"}, ["a1", "a2", "a3"]),
        ("only b", {"start_pk": "b", "end_pk": "b"}, ["b1", "b2", "b3"]),
        ("a2 to b2", middle, ["a2", "a3", "b1", "b2"]),
    ]:
        report.check(f"a table SAS for {case} shows no more", expected,
                     lambda: seen(**options))
    client = account.table_as(account.table_sas(name, **middle), name)
    report.check("a table SAS for a range does not write outside", FORBIDDEN,
                 lambda: client.upsert_entity(entity("1", "a")))
    report.check("a table SAS for a range does not read outside",
                 Matches("403 or 404", lambda refused: isinstance(refused, Refused)
                         and refused.status in (403, 404)),
                 lambda: client.get_entity("c", "1"))
    report.check("a table SAS for a range covers all of a transaction", FORBIDDEN,
                 lambda: client.submit_transaction(
                     [("upsert", entity("2", "b")), ("upsert", entity("3", "b"))]))
    report.check("a table SAS for a range writes within", True,
                 lambda: bool(client.upsert_entity(entity("1", "b"))))


def walk_policies(account, report, name):
    table = account.service.get_table_client(name)
    credential = account.table_sas(name, permission=None, expiry=None, policy_id="reader")

    def with_policy(**policy):
        policy = TableAccessPolicy(start=past - hour, **policy) if policy else None
        table.set_table_access_policy({"reader": policy} if policy else {})
        return read_as(account, credential, name)

    hour = timedelta(hours=1)
    past = now() - hour
    for case, policy, expected in [
        ("a policy that reads", {"permission": "r", "expiry": soon()}, "r"),
        ("a policy that only adds", {"permission": "a", "expiry": soon()}, NOT_PERMITTED),
        ("a policy that has ended", {"permission": "r", "expiry": past}, UNAUTHENTICATED),
        ("a policy that is gone", {}, UNAUTHENTICATED),
    ]:
        report.check(f"a table SAS by {case}", expected, lambda: with_policy(**policy))


def walk_tokens(account, report):
    class Token:
        def __init__(self, text):
            self.text = text

        def get_token(self, *_scopes, **_options):
            return AccessToken(self.text, int(time.time()) + 3600)

    if account.token:
        name = account.new_table().table_name
        table = account.table_as(Token(account.token), name)
        report.check("a token of the issuer", "r",
                     lambda: table.upsert_entity(entity("r"))
                     and table.get_entity("p", "r")["RowKey"])
    service = account.service_as(Token("nonsense"))
    report.check("a nonsense token is refused with a challenge",
                 (401, Matches("a Bearer challenge", lambda text: text.startswith("Bearer "))),
                 lambda: challenged(account, service))


def challenged(account, service):
    try:
        return list(service.list_tables())
    except Exception:  # the SDK has an error of its own for each way to refuse a token
        answers = account.answers
        return answers.last.status_code, answers.header("WWW-Authenticate")
