"""Properties: each Edm type goes there and comes back as it was."""

import math
from datetime import datetime, timezone
from uuid import UUID

from azure.data.tables import EdmType, EntityProperty

from report import Matches

TIME = datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
GUID = UUID("c9da6455-213d-42c9-9a79-3e9149a57833")


def int64(value):
    return EntityProperty(value, EdmType.INT64)


# What is written, and must be read again.
VALUES = [
    ("String", "text"),
    ("String, empty", ""),
    ("String beyond the BMP", "a😀b\n\t\"\\"),
    ("String that looks like a number", "12"),
    ("String of 32 Ki characters", "x" * 32768),
    ("Int32", 5),
    ("Int32, least", -(2**31)),
    ("Int32, greatest", 2**31 - 1),
    ("Int64", int64(5)),
    ("Int64, least", int64(-(2**63))),
    ("Int64, greatest", int64(2**63 - 1)),
    ("Double", 1.5),
    ("Double, whole", 3.0),
    ("Double, small", 5e-324),
    ("Double, great", 1.7976931348623157e308),
    ("Double, infinite", math.inf),
    ("Double, minus infinite", -math.inf),
    ("Double, not a number", math.nan),
    ("Boolean true", True),
    ("Boolean false", False),
    ("DateTime", TIME),
    ("DateTime, least", datetime(1601, 1, 1, tzinfo=timezone.utc)),
    ("DateTime, greatest", datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)),
    ("Guid", GUID),
    ("Binary", b"\x00\x01\xff"),
    ("Binary, empty", b""),
    ("Binary of 64 KiB", bytes(range(256)) * 256),
]


def walk(account, report):
    table = account.new_table()

    def read_back(name, value):
        written = {"PartitionKey": "p", "RowKey": name, "value": value}
        table.create_entity(written)
        return table.get_entity("p", name)["value"]

    for name, value in VALUES:
        report.check(f"{name}", same(value), lambda: read_back(name, value))
    report.check("DateTime keeps 100 nanoseconds", "2024-01-02T03:04:05.6789012Z",
                 lambda: read_back("ticks", EntityProperty("2024-01-02T03:04:05.6789012Z",
                                                           EdmType.DATETIME)).tables_service_value)
    report.check("null is not kept", {"PartitionKey": "p", "RowKey": "null"},
                 lambda: table.create_entity({"PartitionKey": "p", "RowKey": "null", "a": None})
                 and table.get_entity("p", "null"))
    report.check("all of one entity", ALL_TYPES, lambda: whole(table))


ALL_TYPES = {
    "PartitionKey": "p", "RowKey": "all", "s": "s", "i": 1, "l": int64(2), "d": 1.5, "b": True,
    "t": TIME, "g": GUID, "x": b"x",
}


def whole(table):
    table.create_entity(ALL_TYPES)
    listed, = table.query_entities("RowKey eq 'all'")
    read = table.get_entity("p", "all")
    assert listed == read, f"listed as {listed}, read as {read}"
    return dict(read)


def same(value):
    """The same value of the same type: 1 is neither True nor 1.0, NaN is NaN."""
    return Matches(f"{value!r:.60}", lambda actual: isinstance(actual, type(value))
                   and isinstance(value, bool) == isinstance(actual, bool)
                   and (actual == value or actual != actual and value != value))
