"""The service itself: its properties and its statistics; and the access policies of a table."""

from datetime import datetime, timezone

from azure.data.tables import (
    TableAccessPolicy,
    TableAnalyticsLogging,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
)

from checks import Refused
from report import Matches

NO_RETENTION = TableRetentionPolicy(enabled=False)
WEEK = TableRetentionPolicy(enabled=True, days=7)


def walk(account, report):
    service = account.service
    if account.cosmos:
        walk_cosmos(account, report)
        return
    before = service.get_service_properties()
    report.check("the properties have all parts",
                 ["analytics_logging", "cors", "hour_metrics", "minute_metrics"],
                 lambda: sorted(before))
    try:
        walk_properties(service, report)
    finally:
        service.set_service_properties(**before)
    walk_policies(account.new_table(), report)
    report.check("statistics of the secondary", "live",
                 lambda: account.secondary().get_service_stats()["geo_replication"]["status"])


def walk_cosmos(account, report):
    refused, table = Refused(501, "NotImplemented"), account.new_table()
    for name, action in [
        ("properties", account.service.get_service_properties),
        ("setting properties", lambda: account.service.set_service_properties(cors=[])),
        ("statistics", lambda: account.secondary().get_service_stats()),
        ("access policies", table.get_table_access_policy),
        ("setting access policies", lambda: table.set_table_access_policy({})),
    ]:
        report.check(f"Cosmos knows no {name}", refused, action)


def walk_properties(service, report):
    check = report.check
    logging = TableAnalyticsLogging(read=True, write=False, delete=True, retention_policy=WEEK)
    hours = TableMetrics(enabled=True, include_apis=True, retention_policy=WEEK)
    minutes = TableMetrics(enabled=False, retention_policy=NO_RETENTION)
    rule = TableCorsRule(["https://a.example", "https://b.example"], ["GET", "PUT"],
                         allowed_headers=["x-ms-meta-*"], exposed_headers=["x-ms-*"],
                         max_age_in_seconds=60)

    def after(**properties):
        service.set_service_properties(**properties)
        now = service.get_service_properties()
        return (described(now["analytics_logging"]), described(now["hour_metrics"]),
                described(now["minute_metrics"]), [described(each) for each in now["cors"]])

    everything = (described(logging), described(hours), described(minutes), [described(rule)])
    check("set all properties", everything,
          lambda: after(analytics_logging=logging, hour_metrics=hours, minute_metrics=minutes,
                        cors=[rule]))
    any_origin = TableCorsRule(["*"], ["GET"])
    check("set CORS only", (*everything[:3], [described(any_origin)]),
          lambda: after(cors=[any_origin]))
    quiet = TableAnalyticsLogging(read=False, write=False, delete=False,
                                  retention_policy=NO_RETENTION)
    # Not every server takes a rule without headers, and this case is not about them.
    check("set logging only", (described(quiet), *everything[1:]),
          lambda: (after(cors=[rule]), after(analytics_logging=quiet))[1])
    check("remove CORS rules only", (described(quiet), *everything[1:3], []),
          lambda: after(cors=[]))


def walk_policies(table, report):
    check = report.check
    start, end = (datetime(year, 1, 1, tzinfo=timezone.utc) for year in (2024, 2034))
    policies = {
        "all": TableAccessPolicy(permission="raud", start=start, expiry=end),
        "reading": TableAccessPolicy(permission="r"),
        "nothing": None,
    }

    def after(identifiers):
        table.set_table_access_policy(identifiers)
        return {name: policy and (policy.permission, policy.start, policy.expiry)
                for name, policy in table.get_table_access_policy().items()}

    check("a new table has no access policies", {}, table.get_table_access_policy)
    check("set access policies",
          Matches("the three policies", lambda read: read.get("all") == ("raud", start, end)
                  and read.get("reading") == ("r", None, None) and len(read) == 3),
          lambda: after(policies))
    check("remove access policies", {}, lambda: after({}))
    # The SDK raises ValueError when the service says that there are too many.
    check("a sixth access policy is refused", ValueError,
          lambda: after({str(number): policies["all"] for number in range(6)}))


def described(model):
    """The values of a model of the SDK, whichever way they were set."""
    values = {name: value for name, value in vars(model).items() if value not in (None, "")}
    policy = values.pop("retention_policy", None)
    if policy is not None:
        values["retention"] = (policy.enabled, policy.days)
    values.pop("version", None)
    values.pop("additional_properties", None)
    return values
