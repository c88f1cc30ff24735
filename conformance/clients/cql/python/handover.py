"""Two servers on one database: what one of them prepared, paged or defined, at the other one.

    python handover.py 127.0.0.1:9042 --other 127.0.0.1:9043

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

import argparse
import sys
import time

from cassandra.query import SimpleStatement
from checks import outcome
from place import KEYSPACE, Place
from report import Report

ROWS = 25
PAGE = 10


def walk(here, there, report):
    here.each("CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))")
    insert = here.session.prepare("INSERT INTO t (p, c, v) VALUES (?, ?, ?)")

    def prepared():
        for row in range(ROWS):
            there.session.execute(insert, (1, row, str(row)))
        return here.rows("SELECT count(*) FROM t WHERE p = 1")

    def paged():
        pages = SimpleStatement("SELECT c FROM t WHERE p = 1", fetch_size=PAGE)
        rows, state = [], None
        for session in (here.session, there.session, here.session):
            page = session.execute(pages, paging_state=state)
            rows += [c for c, in page.current_rows]
            state = page.paging_state
        return rows, state

    def altered():
        """Servers tell each other of new definitions, and look for them once a second."""
        select = there.session.prepare("SELECT * FROM t WHERE p = 1 AND c = 0")
        here.each("ALTER TABLE t ADD w int", "UPDATE t SET w = 7 WHERE p = 1 AND c = 0")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            rows = there.rows("SELECT * FROM t WHERE p = 1 AND c = 0")
            if rows == [(1, 0, "0", 7)]:
                break
        return rows, list(there.session.execute(select))[0][:3]

    def conditional():
        once = "INSERT INTO t (p, c, v) VALUES (2, 0, 'x') IF NOT EXISTS"
        return [place.rows(once)[0][0] for place in (here, there)]

    there.session.set_keyspace(KEYSPACE)
    report.check("what one server prepared runs on the other", [(ROWS,)], prepared)
    report.check("pages come from one and the other", (list(range(ROWS)), None), paged)
    report.check("a column that one adds is seen by the other", ([(1, 0, "0", 7)], (1, 0, "0")),
                 altered)
    report.check("a conditional write is done by one of them", [True, False], conditional)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--other", required=True)
    options = parser.parse_args()
    options.user = options.password = options.ca = None
    here, report = Place(options), Report(outcome)
    there = Place.__new__(Place)
    there.__dict__.update(here.__dict__, port=int(options.other.rsplit(":", 1)[1]), clusters=[])
    there.session = there.connect()
    try:
        report.check("the walk runs to its end", None, lambda: walk(here, there, report))
    finally:
        here.clean_up()
        for cluster in there.clusters:
            cluster.shutdown()
    sys.exit(0 if report.finish() else 1)


if __name__ == "__main__":
    main()
