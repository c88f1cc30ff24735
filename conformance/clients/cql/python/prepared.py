"""Prepared statements: in every version, over changes of their tables, and by name."""

from report import Matches


def walk(place, report):
    place.each("CREATE TABLE prepared (a int, b int, v text, PRIMARY KEY (a, b))")
    for version in (3, 4, 5):
        report.check(f"prepared in version {version}", [(1, version, f"v{version}")],
                     lambda: once(place, version))
        report.check(f"a new column is seen in version {version}", ("v", None),
                     lambda: over_change(place, version))
    report.check("the driver learns the partition key", [0], lambda: place.session.prepare(
        "INSERT INTO prepared (a, b) VALUES (?, ?)").routing_key_indexes)
    report.check("values by name", [(1, 3)], lambda: list(place.session.execute(
        place.session.prepare("SELECT a, b FROM prepared WHERE a = :x AND b = :y"),
        {"y": 3, "x": 1})))
    report.check("a statement whose table was made again", [(5, 6)], lambda: made_again(place))
    report.check("one id for one statement", True, lambda: same_id(place))
    report.check("unset leaves a column alone", [("kept",)], lambda: unset(place))


def once(place, version):
    session = place.connect(version)
    session.set_keyspace("walk_python")
    insert = session.prepare("INSERT INTO prepared (a, b, v) VALUES (?, ?, ?)")
    session.execute(insert, (1, version, f"v{version}"))
    select = session.prepare("SELECT a, b, v FROM prepared WHERE a = ? AND b = ?")
    found = list(session.execute(select, (1, version)))
    session.cluster.shutdown()
    return found


def over_change(place, version):
    session = place.connect(version)
    session.set_keyspace("walk_python")
    table = f"changing_{version}"
    session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v text)")
    session.execute(f"INSERT INTO {table} (k, v) VALUES (1, 'v')")
    select = session.prepare(f"SELECT * FROM {table} WHERE k = ?")
    session.execute(select, (1,))
    place.session.execute(f"ALTER TABLE walk_python.{table} ADD w int")
    row = session.execute(select, (1,)).one()
    session.cluster.shutdown()
    return row[1:]


def made_again(place):
    session = place.session
    place.each("CREATE TABLE again (a int PRIMARY KEY, b int)")
    insert = session.prepare("INSERT INTO again (a, b) VALUES (?, ?)")
    session.execute(insert, (1, 2))
    place.each("DROP TABLE again", "CREATE TABLE again (a int PRIMARY KEY, b int)")
    session.execute(insert, (5, 6))
    return place.rows("SELECT a, b FROM again")


def same_id(place):
    text = "SELECT * FROM walk_python.prepared WHERE a = ?"
    other = place.connect()
    ids = {place.session.prepare(text).query_id, other.prepare(text).query_id}
    other.cluster.shutdown()
    return len(ids) == 1


def unset(place):
    from cassandra.query import UNSET_VALUE
    session = place.session
    insert = session.prepare("INSERT INTO prepared (a, b, v) VALUES (?, ?, ?)")
    session.execute(insert, (8, 8, "kept"))
    session.execute(insert, (8, 8, UNSET_VALUE))
    return place.rows("SELECT v FROM prepared WHERE a = 8 AND b = 8")
