"""Pages: of a partition, of a whole table, and again from where one was left."""

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import SimpleStatement

ROWS = 2500


def walk(place, report):
    place.each("CREATE TABLE paged (k int, c int, PRIMARY KEY (k, c))")
    insert = place.session.prepare("INSERT INTO paged (k, c) VALUES (?, ?)")
    values = [(number % 5, number) for number in range(ROWS)]
    execute_concurrent_with_args(place.session, insert, values, concurrency=32)
    for size in (1, 7, 100, 5000):
        limit = 30 if size == 1 else ROWS
        report.check(f"a table in pages of {size}", limit,
                     lambda: len(set(pages(place, "SELECT k, c FROM paged LIMIT %d" % limit, size))))
    report.check("a partition in pages, in order", list(range(0, ROWS, 5)), lambda: [
        c for (c,) in pages(place, "SELECT c FROM paged WHERE k = 0", 33)])
    report.check("backwards, too", list(range(ROWS - 5, -1, -5)), lambda: [
        c for (c,) in pages(place, "SELECT c FROM paged WHERE k = 0 ORDER BY c DESC", 33)])
    report.check("a page from where another ended", list(range(50, 100, 5)),
                 lambda: continued(place))
    report.check("PER PARTITION LIMIT", 10, lambda: len(pages(
        place, "SELECT k, c FROM paged PER PARTITION LIMIT 2", 3)))


def pages(place, text, size):
    return list(place.session.execute(SimpleStatement(text, fetch_size=size)))


def continued(place):
    statement = SimpleStatement("SELECT c FROM paged WHERE k = 0", fetch_size=10)
    first = place.session.execute(statement)
    state = first.paging_state
    second = place.session.execute(statement, paging_state=state)
    return [c for (c,) in second.current_rows]
