"""Two servers on one database: an entity, a page and a version of one of them, at the other one.

    python handover.py http://127.0.0.1:10002/devstoreaccount1 --other http://127.0.0.1:10003/...

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

import argparse
import sys

from account import Account
from azure.core import MatchConditions
from checks import Refused, outcome
from report import Report

ROWS = [f"{number:02}" for number in range(25)]


def walk(account, other, report):
    entities = [{"PartitionKey": "p", "RowKey": row} for row in ROWS]
    here = account.filled_table(entities)
    there = account.service_as(account.key, other).get_table_client(here.table_name)

    def paged():
        rows, token = [], None
        for table in (here, there, here):
            pages = table.list_entities(results_per_page=10).by_page(token)
            rows += [entity["RowKey"] for entity in next(pages)]
            token = pages.continuation_token
        return rows, token

    def changed():
        """The version that one server gave is out of date after the other one's change."""
        entity = here.get_entity("p", ROWS[0])
        there.update_entity({"PartitionKey": "p", "RowKey": ROWS[0], "n": 1})
        return here.update_entity(entity | {"n": 2}, etag=entity.metadata["etag"],
                                  match_condition=MatchConditions.IfNotModified)

    def dropped():
        account.service.delete_table(here.table_name)
        return there.get_entity("p", ROWS[0])

    report.check("pages come from one and the other", (ROWS, None), paged)
    report.check("a change by one is seen by the other", Refused(412, "UpdateConditionNotSatisfied"),
                 changed)
    report.check("a table that one drops is gone from the other", Refused(404, "TableNotFound"),
                 dropped)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--other", required=True)
    options = parser.parse_args()
    options.ca = options.token = None
    options.cosmos = False
    account, report = Account(options), Report(outcome)
    report.check("the walk runs to its end", None, lambda: walk(account, options.other, report))
    sys.exit(0 if report.finish() else 1)


if __name__ == "__main__":
    main()
