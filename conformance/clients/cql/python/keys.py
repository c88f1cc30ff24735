"""The three designs of keys: a primary key, a compound one and a composite one."""

from cassandra import InvalidRequest
from cassandra.metadata import Murmur3Token

from checks import Refused


def walk(place, report):
    single(place, report)
    compound(place, report)
    composite(place, report)
    tokens(place, report)


def single(place, report):
    session = place.session
    session.execute("CREATE TABLE users (id int PRIMARY KEY, name text)")
    for number in range(10):
        session.execute("INSERT INTO users (id, name) VALUES (%s, %s)", (number, f"user {number}"))
    report.check("one row by its key", [("user 7",)],
                 lambda: place.rows("SELECT name FROM users WHERE id = 7"))
    report.check("several by IN", [(1,), (3,)],
                 lambda: sorted(place.rows("SELECT id FROM users WHERE id IN (3, 1)")))
    report.check("all rows in the order of their tokens", True, lambda: in_order(place))
    report.check("not by another column",
                 Refused(InvalidRequest, "ALLOW FILTERING"),
                 lambda: place.rows("SELECT * FROM users WHERE name = 'user 1'"))


def in_order(place):
    rows = place.rows("SELECT token(id) FROM users")
    return len(rows) == 10 and rows == sorted(rows)


def compound(place, report):
    place.each("CREATE TABLE readings (sensor text, day int, hour int, value double, "
               "unit text STATIC, PRIMARY KEY (sensor, day, hour)) "
               "WITH CLUSTERING ORDER BY (day DESC, hour ASC)")
    for day in range(3):
        for hour in range(4):
            place.session.execute(
                "INSERT INTO readings (sensor, day, hour, value) VALUES ('a', %s, %s, %s)",
                (day, hour, day + hour / 10))
    place.each("INSERT INTO readings (sensor, unit) VALUES ('a', 'K')")
    report.check("rows come in the order of the clustering",
                 [(day, hour) for day in (2, 1, 0) for hour in range(4)],
                 lambda: place.rows("SELECT day, hour FROM readings WHERE sensor = 'a'"))
    report.check("and in the opposite one", [(0, 3), (0, 2)],
                 lambda: place.rows("SELECT day, hour FROM readings WHERE sensor = 'a' "
                                    "ORDER BY day ASC, hour DESC LIMIT 2"))
    report.check("a slice", [(1, 2), (1, 3)],
                 lambda: place.rows("SELECT day, hour FROM readings WHERE sensor = 'a' "
                                    "AND day = 1 AND hour >= 2"))
    report.check("a slice of several columns", [(2, 0), (2, 1), (2, 2), (2, 3)],
                 lambda: place.rows("SELECT day, hour FROM readings WHERE sensor = 'a' "
                                    "AND (day) > (1)"))
    report.check("a static column is on each row", [("K",)],
                 lambda: place.rows("SELECT DISTINCT unit FROM readings WHERE sensor = 'a'"))
    report.check("a clustering column before its time",
                 Refused(InvalidRequest, "cannot be restricted"),
                 lambda: place.rows("SELECT * FROM readings WHERE sensor = 'a' AND hour = 1"))
    place.each("DELETE FROM readings WHERE sensor = 'a' AND day = 1")
    report.check("a range is deleted", [(8,)],
                 lambda: place.rows("SELECT count(*) FROM readings WHERE sensor = 'a'"))


def composite(place, report):
    place.each("CREATE TABLE orders (shop text, year int, number int, total decimal, "
               "PRIMARY KEY ((shop, year), number))")
    for year in (2024, 2025):
        for number in (1, 2):
            place.session.execute(
                "INSERT INTO orders (shop, year, number, total) VALUES ('x', %s, %s, 1.50)",
                (year, number))
    report.check("a partition by both columns", [(1,), (2,)],
                 lambda: place.rows("SELECT number FROM orders WHERE shop = 'x' AND year = 2025"))
    report.check("half of the key is not enough",
                 Refused(InvalidRequest, ""),
                 lambda: place.rows("SELECT * FROM orders WHERE shop = 'x'"))
    report.check("distinct partitions", [("x", 2024), ("x", 2025)],
                 lambda: sorted(place.rows("SELECT DISTINCT shop, year FROM orders")))


def tokens(place, report):
    def mine(key):
        return Murmur3Token.hash_fn(key)
    report.check("tokens are the driver's", [(mine(b"a"),)],
                 lambda: place.rows("SELECT DISTINCT token(sensor) FROM readings "
                                    "WHERE sensor = 'a'"))
    key = b"\0\1x\0\0\4\0\0\x07\xe8\0"
    report.check("tokens of composite keys, too", True,
                 lambda: (mine(key),) in place.rows("SELECT DISTINCT token(shop, year) FROM orders"))
    report.check("ranges of tokens cover each row once", list(range(10)), lambda: covered(place))


def covered(place):
    ring = sorted(token.value for token in place.session.cluster.metadata.token_map.ring)
    bounds = [-(2 ** 63)] + ring + [2 ** 63 - 1]
    found = []
    for low, high in zip(bounds, bounds[1:]):
        found += place.rows("SELECT id FROM users WHERE token(id) > %s AND token(id) <= %s",
                            (low, high))
    return sorted(number for (number,) in found)
