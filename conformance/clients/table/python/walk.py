"""Walks over every operation of the Table service with the Python SDK.

    python walk.py http://127.0.0.1:10002/devstoreaccount1
    python walk.py https://127.0.0.1:10002/devstoreaccount1 --ca cert.pem

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

import access
import entities
import properties
import queries
import service
import tables
import transactions
import validation
from account import Account
from checks import RefusalReport
from report import arguments

PARTS = [tables, entities, properties, queries, transactions, validation, access, service]


def main():
    parser = arguments(__doc__, "http://127.0.0.1:10002/devstoreaccount1")
    parser.add_argument("--cosmos", action="store_true", help="expect what Cosmos does, not Table storage")
    parser.add_argument("--token", help="a file with a bearer token that the server takes")
    options = parser.parse_args()

    account, report = Account(options), RefusalReport()

    def check_answers():
        report.area = "answers"
        account.answers.check(report, options.cosmos)
        report.check_codes()

    report.walk(PARTS, account, then=check_answers)


if __name__ == "__main__":
    main()
