"""Writing and reading: updates, deletions, batches, conditions, counters, collections, times."""

from cassandra import InvalidRequest
from cassandra.query import BatchStatement, BatchType, SimpleStatement

from checks import Refused
from report import Matches


def walk(place, report):
    place.each("CREATE TABLE things (k int, c int, v text, l list<int>, s set<text>, "
               "m map<text, int>, PRIMARY KEY (k, c))",
               "CREATE TABLE counts (k int PRIMARY KEY, n counter)")
    rows(place, report)
    conditions(place, report)
    collections(place, report)
    batches(place, report)
    times(place, report)
    selections(place, report)


def rows(place, report):
    place.each("INSERT INTO things (k, c, v) VALUES (1, 1, 'a')",
               "UPDATE things SET v = 'b' WHERE k = 1 AND c = 2")
    read = lambda: place.rows("SELECT c, v FROM things WHERE k = 1")
    report.check("INSERT and UPDATE both write rows", [(1, "a"), (2, "b")], read)
    place.each("UPDATE things SET v = null WHERE k = 1 AND c = 2")
    report.check("a row that was only updated goes with its last cell", [(1, "a")], read)
    place.each("DELETE v FROM things WHERE k = 1 AND c = 1")
    report.check("one that was inserted stays", [(1, None)], read)
    place.each("DELETE FROM things WHERE k = 1")
    report.check("a partition is deleted", [], read)
    report.check("a key may not be null", Refused(InvalidRequest, "Invalid null value"),
                 lambda: place.session.execute(
                     SimpleStatement("INSERT INTO things (k, c) VALUES (null, 1)")))


def conditions(place, report):
    one = lambda text: place.rows(text)[0]
    report.check("IF NOT EXISTS applies once", (True,),
                 lambda: one("INSERT INTO things (k, c, v) VALUES (2, 1, 'a') IF NOT EXISTS")[:1])
    report.check("and then tells what is there", Matches("not applied, a", lambda row:
                 row[0] is False and "a" in row),
                 lambda: one("INSERT INTO things (k, c, v) VALUES (2, 1, 'b') IF NOT EXISTS"))
    report.check("a condition that fails", (False, "a"),
                 lambda: one("UPDATE things SET v = 'x' WHERE k = 2 AND c = 1 IF v = 'z'"))
    report.check("one that holds", (True,),
                 lambda: one("UPDATE things SET v = 'x' WHERE k = 2 AND c = 1 IF v = 'a'"))
    report.check("IF EXISTS of nothing", (False,),
                 lambda: one("DELETE FROM things WHERE k = 9 AND c = 9 IF EXISTS"))


def collections(place, report):
    place.each("INSERT INTO things (k, c, l, s, m) VALUES (3, 1, [1], {'a'}, {'x': 1})",
               "UPDATE things SET l = l + [2], s = s + {'b'}, m['y'] = 2 WHERE k = 3 AND c = 1",
               "UPDATE things SET l = [0] + l, s = s - {'a'} WHERE k = 3 AND c = 1",
               "DELETE m['x'] FROM things WHERE k = 3 AND c = 1")
    report.check("collections change element by element", ([0, 1, 2], {"b"}, {"y": 2}), lambda:
                 tuple(place.rows("SELECT l, s, m FROM things WHERE k = 3 AND c = 1")[0]))


def batches(place, report):
    session = place.session
    insert = session.prepare("INSERT INTO things (k, c, v) VALUES (?, ?, ?)")
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        batch = BatchStatement(kind)
        for number in range(5):
            batch.add(insert, (4, number, "batch"))
        batch.add("DELETE FROM things WHERE k = 4 AND c = 0")
        session.execute(batch)
    report.check("batches of prepared statements and texts", [(1,), (2,), (3,), (4,)],
                 lambda: place.rows("SELECT c FROM things WHERE k = 4"))
    report.check("an empty batch", [],
                 lambda: place.rows("BEGIN BATCH APPLY BATCH"))
    counter = BatchStatement(BatchType.COUNTER)
    counter.add("UPDATE counts SET n = n + 5 WHERE k = 1")
    counter.add("UPDATE counts SET n = n - 2 WHERE k = 1")
    session.execute(counter)
    report.check("counters count", [(3,)], lambda: place.rows("SELECT n FROM counts WHERE k = 1"))
    report.check("counters do not mix with others", Refused(InvalidRequest, "ounter"),
                 lambda: place.rows("BEGIN BATCH UPDATE counts SET n = n + 1 WHERE k = 1; "
                                    "INSERT INTO things (k, c) VALUES (1, 1) APPLY BATCH"))


def times(place, report):
    place.each("INSERT INTO things (k, c, v) VALUES (5, 1, 'new') USING TIMESTAMP 2000",
               "INSERT INTO things (k, c, v) VALUES (5, 1, 'old') USING TIMESTAMP 1000")
    report.check("the later time wins", [("new", 2000)],
                 lambda: place.rows("SELECT v, writetime(v) FROM things WHERE k = 5"))
    place.each("DELETE FROM things USING TIMESTAMP 3000 WHERE k = 5 AND c = 1",
               "INSERT INTO things (k, c, v) VALUES (5, 1, 'late') USING TIMESTAMP 2500")
    report.check("a deletion beats what is older and comes later", [],
                 lambda: place.rows("SELECT v FROM things WHERE k = 5"))
    place.each("INSERT INTO things (k, c, v) VALUES (6, 1, 'short') USING TTL 1000")
    report.check("a time to live is told", Matches("up to 1000", lambda rows:
                 990 <= rows[0][0] <= 1000),
                 lambda: place.rows("SELECT ttl(v) FROM things WHERE k = 6"))


def selections(place, report):
    report.check("aggregates", [(4, 4, 1, 10)], lambda: place.rows(
        "SELECT count(*), max(c), min(c), sum(c) FROM things WHERE k = 4"))
    report.check("GROUP BY", [(4, 4)], lambda: place.rows(
        "SELECT k, count(*) FROM things WHERE k = 4 GROUP BY k"))
    report.check("JSON", [('{"c": 1, "v": "batch"}',)], lambda: place.rows(
        "SELECT JSON c, v FROM things WHERE k = 4 LIMIT 1"))
    place.each("INSERT INTO things JSON '{\"k\": 7, \"c\": 1, \"v\": \"json\"}'")
    report.check("INSERT JSON", [("json",)], lambda: place.rows("SELECT v FROM things WHERE k = 7"))
    report.check("filtering on demand", [(7,)], lambda: place.rows(
        "SELECT k FROM things WHERE v = 'json' ALLOW FILTERING"))
    place.each("CREATE INDEX things_v ON things (v)")
    report.check("an index finds it without", [(7,)], lambda: place.rows(
        "SELECT k FROM things WHERE v = 'json'"))
    report.check("functions", [("00000001", 1.0)], lambda: place.rows(
        "SELECT blobAsText(textAsBlob('00000001')), CAST(c AS double) FROM things WHERE k = 7"))
    place.each("TRUNCATE things")
    report.check("TRUNCATE", [(0,)], lambda: place.rows("SELECT count(*) FROM things"))
