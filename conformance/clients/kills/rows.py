"""The Python driver of Cassandra: rows with an index and a view, counters, conditions, batches."""

import collections
import random

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy, WhiteListRoundRobinPolicy
from cassandra.query import BatchStatement

from known import GONE, Counters, Values, compare

PARTITIONS = 7
KEYS = 300
BATCHES = 20

DEFINITIONS = (
    "CREATE KEYSPACE kills WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE kills.rows (k int, c int, v int, i int, PRIMARY KEY (k, c))",
    "CREATE INDEX ON kills.rows (i)",
    "CREATE MATERIALIZED VIEW kills.by_value AS SELECT * FROM kills.rows WHERE k IS NOT NULL AND "
    "c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k, c)",
    "CREATE TABLE kills.counters (k text PRIMARY KEY, n counter)",
    "CREATE TABLE kills.conditions (k int PRIMARY KEY, v int)",
    "CREATE TABLE kills.left (k int PRIMARY KEY, v int)",
    "CREATE TABLE kills.right (k int PRIMARY KEY, v int)",
)

STATEMENTS = {
    "insert": "INSERT INTO kills.rows (k, c, v, i) VALUES (?, ?, ?, ?)",
    "delete": "DELETE FROM kills.rows WHERE k = ? AND c = ?",
    "count": "UPDATE kills.counters SET n = n + 1 WHERE k = ?",
    "first": "INSERT INTO kills.conditions (k, v) VALUES (?, ?) IF NOT EXISTS",
    "next": "UPDATE kills.conditions SET v = ? WHERE k = ? IF v = ?",
    "left": "INSERT INTO kills.left (k, v) VALUES (?, ?)",
    "right": "INSERT INTO kills.right (k, v) VALUES (?, ?)",
}


class Part:
    def __init__(self, tally):
        self.tally = tally
        self.rows = Values(tally, "cql row")
        self.conditions = Values(tally, "cql condition")
        self.batches = Values(tally, "cql batch")
        self.counters = Counters(tally, "cql counter")
        self.session = None
        self.statements = {}

    def connect(self, place, _patience_ms):
        host, port = place.split(":")
        profile = ExecutionProfile(request_timeout=60, retry_policy=FallthroughRetryPolicy(),
                                   load_balancing_policy=WhiteListRoundRobinPolicy([host]))
        cluster = Cluster([host], port=int(port), protocol_version=4, connect_timeout=20,
                          control_connection_timeout=20, idle_heartbeat_interval=0,
                          schema_metadata_enabled=False, token_metadata_enabled=False,
                          execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        self.session = cluster.connect()

    def set_up(self):
        for definition in DEFINITIONS:
            self.session.execute(definition)

    def disconnect(self):
        self.session.cluster.shutdown()
        self.statements = {}

    def run(self, statement, *values):
        return self.session.execute(self.statements[statement], values)

    def steps(self, worker, workers):
        if not self.statements:
            self.statements = {name: self.session.prepare(text)
                               for name, text in STATEMENTS.items()}
        chance = random.Random(self.tally.number())
        own = range(worker, KEYS, workers)
        while True:
            kind, key, value = chance.random(), chance.choice(own), self.tally.number()
            row = (key % PARTITIONS, key)
            if kind < 0.5:
                self.rows.write(row, value, lambda: self.run("insert", *row, value, value % 20))
            elif kind < 0.6:
                self.rows.write(row, GONE, lambda: self.run("delete", *row))
            elif kind < 0.8:
                counter = f"counter {chance.randrange(4)}"
                self.counters.add(counter, lambda: self.run("count", counter))
            elif kind < 0.9:
                self.compare_and_set(key, value)
            else:
                batch = worker + workers * chance.randrange(BATCHES)
                self.batches.write(batch, value, lambda: self.write_both(batch, value))
            yield

    def compare_and_set(self, key, value):
        """What this worker knows of its key must be so, or it is a fault."""
        known = self.conditions.acknowledged.get(key, GONE)
        if self.conditions.possible[key]:
            return  # Not known any more, until everything is read back.

        def write():
            result = (self.run("first", key, value) if known == GONE
                      else self.run("next", value, key, known))
            if not result.was_applied:
                raise AssertionError(f"{key} is not {known}")
        self.conditions.write(key, value, write)

    def write_both(self, key, value):
        batch = BatchStatement()
        batch.add(self.statements["left"], (key, value))
        batch.add(self.statements["right"], (key, value))
        self.session.execute(batch)

    def check(self):
        select = self.session.execute
        rows = list(select("SELECT k, c, v, i FROM kills.rows"))
        found = {(row.k, row.c): row.v for row in rows}
        faults = self.rows.check(found)
        view = {(row.k, row.c): row.v for row in select("SELECT k, c, v FROM kills.by_value")}
        faults += compare("the view", view, found)
        by_i = collections.Counter(row.i for row in rows)
        for number in range(20):
            count = len(list(select(f"SELECT k FROM kills.rows WHERE i = {number}")))
            faults += compare(f"the index of {number}", count, by_i[number])
        counted = {row.k: row.n for row in select("SELECT k, n FROM kills.counters")}
        faults += self.counters.check(counted)
        conditions = {row.k: row.v for row in select("SELECT k, v FROM kills.conditions")}
        faults += self.conditions.check(conditions)
        left, right = ({row.k: row.v for row in select(f"SELECT k, v FROM kills.{side}")}
                       for side in ("left", "right"))
        faults += compare("both sides of batches", right, left)
        return faults + self.batches.check(left)
