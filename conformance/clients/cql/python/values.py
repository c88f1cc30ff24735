"""Values of every type, written and read as they are."""

import datetime
import decimal
import ipaddress
import uuid

from cassandra.util import Date, Duration, Time

VALUES = {
    "ascii": "abc",
    "bigint": -(2 ** 63),
    "blob": b"\x00\xff",
    "boolean": True,
    "date": Date("1969-12-31"),
    "decimal": decimal.Decimal("-12345678901234567890.123456789"),
    "double": 1.5e300,
    "duration": Duration(months=1, days=2, nanoseconds=3),
    "float": 0.5,
    "inet": ipaddress.ip_address("2001:db8::1"),
    "int": -(2 ** 31),
    "smallint": 32767,
    "text": "naïve ☕ 😀",
    "time": Time("12:34:56.789012345"),
    "timestamp": datetime.datetime(2024, 2, 29, 12, 0, 0, 123000),
    "timeuuid": uuid.UUID("43eca000-838b-11ee-8000-010000000000"),
    "tinyint": -128,
    "uuid": uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
    "varint": 2 ** 100,
    "list<int>": [3, 1, 3],
    "set<text>": {"a", "b"},
    "map<text, int>": {"a": 1, "b": 2},
    "frozen<map<int, frozen<list<text>>>>": {1: ["x"], 2: []},
    "tuple<int, text>": (1, None),
    "vector<float, 3>": [0.5, 1.0, -2.0],
}


def walk(place, report):
    for number, (kind, value) in enumerate(VALUES.items()):
        table = f"values_{number}"
        place.each(f"CREATE TABLE {table} (k int PRIMARY KEY, v {kind})")
        for version in (4, 5):
            report.check(f"{kind} in version {version}", True,
                         lambda: back(place, table, value, version))


def back(place, table, value, version):
    session = place.connect(version) if version != 5 else place.session
    insert = session.prepare(f"INSERT INTO walk_python.{table} (k, v) VALUES (?, ?)")
    session.execute(insert, (version, value))
    found = session.execute(f"SELECT v FROM walk_python.{table} WHERE k = %s", (version,)).one()[0]
    if version != 5:
        session.cluster.shutdown()
    return plain(found) == plain(value) or (found, value)


def plain(value):
    """Values that the driver reads in a type of its own."""
    if hasattr(value, "items"):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, set)) or type(value).__name__ in ("SortedSet", "OrderedMap"):
        return sorted(plain(one) for one in value) if not isinstance(value, list) \
            else [plain(one) for one in value]
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    return value
