"""Data of each kind that a data folder keeps: fills a new one, or looks whether an old one has it.

    python kept.py 127.0.0.1:9042 --fill
    python kept.py 127.0.0.1:9042 --expect
"""

import argparse
import sys

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import tuple_factory

TEN_YEARS = 315_360_000
TYPES = {
    "ascii": "'a'", "bigint": "-9007199254740993", "blob": "0x00ff", "boolean": "true",
    "date": "'2026-11-18'", "decimal": "1.10", "double": "1.5", "duration": "1mo2d3h",
    "float": "0.5", "inet": "'::1'", "int": "-7", "smallint": "-8", "text": "'ß'",
    "time": "'12:30:15.123456789'", "timestamp": "'2026-11-18T12:30:15.123Z'",
    "timeuuid": "50554d6e-29bb-11e5-b345-feff819cdc9f", "tinyint": "-9",
    "uuid": "01234567-89ab-cdef-0123-456789abcdef", "varint": "-123456789012345678901234567890",
    "list<int>": "[3, 1, 2]", "set<text>": "{'b', 'a'}", "map<text, int>": "{'b': 2, 'a': 1}",
    "frozen<tuple<int, text>>": "(1, 'x')", "frozen<place>": "{street: 's', number: 7}",
    "vector<float, 3>": "[1.0, 2.0, 3.0]",
}
STATEMENTS = [
    "CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE kept",
    "CREATE TYPE place (street text, number int)",
    "CREATE TABLE types (k int PRIMARY KEY, "
    + ", ".join(f"v{number} {name}" for number, name in enumerate(TYPES)) + ")",
    "INSERT INTO types (k, " + ", ".join(f"v{number}" for number in range(len(TYPES)))
    + ") VALUES (1, " + ", ".join(TYPES.values()) + ")",
    "CREATE TABLE rows (p text, c int, s int static, v text, n int, PRIMARY KEY (p, c)) "
    "WITH CLUSTERING ORDER BY (c DESC)",
    "CREATE INDEX by_v ON rows (v)",
    "CREATE MATERIALIZED VIEW by_n AS SELECT n, p, c, v FROM rows WHERE n IS NOT NULL AND p IS NOT NULL "
    "AND c IS NOT NULL PRIMARY KEY (n, p, c)",
    "CREATE TABLE counts (k text PRIMARY KEY, n counter)",
    "UPDATE counts SET n = n + 5 WHERE k = 'a'",
    "UPDATE counts SET n = n - 2 WHERE k = 'a'",
    "CREATE ROLE readers",
    "CREATE ROLE ada WITH PASSWORD = 'correct-horse' AND LOGIN = true",
    "GRANT readers TO ada",
    "GRANT SELECT ON KEYSPACE kept TO readers",
]
ROWS = [(f"p{number % 4}", number, f"v{number % 3}", number % 5) for number in range(40)]


def fill(session):
    for statement in STATEMENTS:
        session.execute(statement)
    for row in ROWS:
        session.execute("INSERT INTO rows (p, c, v, n) VALUES (%s, %s, %s, %s)", row)
    session.execute("UPDATE rows SET s = 9 WHERE p = 'p1'")
    session.execute("DELETE FROM rows WHERE p = 'p0' AND c = 0")
    session.execute(f"INSERT INTO rows (p, c, v) VALUES ('ttl', 1, 'x') USING TTL {TEN_YEARS}")
    session.execute("INSERT INTO rows (p, c, v) VALUES ('time', 1, 'x') USING TIMESTAMP 12345")


def cases(session):
    def rows(statement):
        return list(session.execute(statement))

    live = [row for row in ROWS if row[1] != 0]
    for number, (name, literal) in enumerate(TYPES.items()):
        found = rows(f"SELECT toJson(v{number}) FROM kept.types WHERE k = 1")[0][0]
        session.execute(f"INSERT INTO kept.types (k, v{number}) VALUES (2, {literal})")
        fresh = rows(f"SELECT toJson(v{number}) FROM kept.types WHERE k = 2")[0][0]
        yield name, found, fresh
        yield f"{name} is there", found not in (None, "null"), True
    yield ("rows in their order", rows("SELECT c, v, n FROM kept.rows WHERE p = 'p2'"),
           [(c, v, n) for p, c, v, n in reversed(live) if p == "p2"])
    yield ("an index", sorted(rows("SELECT p, c FROM kept.rows WHERE v = 'v1'")),
           sorted((p, c) for p, c, v, _ in live if v == "v1"))
    yield ("a view", sorted(rows("SELECT p, c FROM kept.by_n WHERE n = 3")),
           sorted((p, c) for p, c, _, n in live if n == 3))
    yield "a static column", rows("SELECT DISTINCT p, s FROM kept.rows WHERE p = 'p1'"), [("p1", 9)]
    yield "a counter", rows("SELECT n FROM kept.counts"), [(3,)]
    life = rows("SELECT ttl(v) FROM kept.rows WHERE p = 'ttl'")[0][0]
    yield "a life", life is not None and 0 < life <= TEN_YEARS, True
    yield "a time", rows("SELECT writetime(v) FROM kept.rows WHERE p = 'time'"), [(12345,)]
    yield "roles", sorted(row[0] for row in rows("LIST ROLES OF ada")), ["ada", "readers"]
    yield "a permission", [row[1:] for row in rows("LIST SELECT PERMISSION OF ada")], [
        ("readers", "<keyspace kept>", "SELECT")]
    session.execute("UPDATE kept.rows SET n = 77 WHERE p = 'p2' AND c = 2")
    yield "a change", rows("SELECT p, c FROM kept.by_n WHERE n = 77"), [("p2", 2)]
    session.execute("ALTER TABLE kept.rows ADD more int")
    yield "a new column", rows("SELECT more FROM kept.rows WHERE p = 'p2' AND c = 2"), [(None,)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--expect", action="store_true")
    options = parser.parse_args()
    host, port = options.endpoint.rsplit(":", 1)
    profile = ExecutionProfile(row_factory=tuple_factory, request_timeout=60)
    cluster = Cluster([host], port=int(port), protocol_version=5, connect_timeout=20,
                      execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    session, wrong = cluster.connect(), 0
    if options.fill:
        fill(session)
    if options.expect:
        for name, found, expected in cases(session):
            if found != expected:
                wrong += 1
                print(f"{name}: {found} instead of {expected}")
    cluster.shutdown()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
