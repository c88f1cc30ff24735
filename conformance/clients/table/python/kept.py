"""Data of each kind that a data folder keeps: fills a new one, or looks whether an old one has it.

    python kept.py http://127.0.0.1:10002/devstoreaccount1 --fill
    python kept.py http://127.0.0.1:10002/devstoreaccount1 --expect
"""

import argparse
import sys
import uuid
from datetime import datetime, timezone

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import EdmType, EntityProperty, TableAccessPolicy, TableServiceClient

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
TYPES = {
    "text": "ß", "number": 7, "large": EntityProperty(1 << 40, EdmType.INT64), "fraction": 1.5,
    "yes": True, "bytes": b"\x00\xff", "id": uuid.UUID(int=7),
    "time": datetime(2026, 11, 18, 12, 30, 15, 123456, tzinfo=timezone.utc),
}


def entities():
    return [{"PartitionKey": f"p{number % 3}", "RowKey": f"{number:02}", "n": number}
            for number in range(30)]


def fill(service):
    table = service.create_table("kept")
    table.create_entity({"PartitionKey": "types", "RowKey": "ä'", **TYPES})
    for entity in entities():
        table.create_entity(entity)
    table.delete_entity("p0", "00")
    table.submit_transaction([("upsert", {"PartitionKey": "batch", "RowKey": str(number)})
                              for number in range(3)])
    policy = TableAccessPolicy(permission="r", expiry=datetime(2036, 1, 1, tzinfo=timezone.utc))
    table.set_table_access_policy({"readers": policy})
    service.create_table("empty")


def cases(service):
    table = service.get_table_client("kept")
    yield "tables", sorted(item.name for item in service.list_tables()), ["empty", "kept"]
    stored = dict(table.get_entity("types", "ä'"))
    yield "types", {name: stored.get(name) for name in TYPES}, TYPES
    found = [(e["PartitionKey"], e["RowKey"], e["n"]) for e in table.query_entities("n ge 0")]
    live = [(e["PartitionKey"], e["RowKey"], e["n"]) for e in entities() if e["n"]]
    yield "entities in their order", found, sorted(live)
    yield "a batch", len(list(table.query_entities("PartitionKey eq 'batch'"))), 3
    yield "a policy", table.get_table_access_policy()["readers"].permission, "r"
    table.update_entity({"PartitionKey": "p1", "RowKey": "01", "n": 1001})
    yield "a change", table.get_entity("p1", "01")["n"], 1001


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--expect", action="store_true")
    options = parser.parse_args()
    account = options.endpoint.rsplit("/", 1)[1]
    service = TableServiceClient(options.endpoint, credential=AzureNamedKeyCredential(account, KEY))
    wrong = 0
    if options.fill:
        fill(service)
    if options.expect:
        for name, found, expected in cases(service):
            if found != expected:
                wrong += 1
                print(f"{name}: {found} instead of {expected}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
