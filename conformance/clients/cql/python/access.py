"""Logins and permissions, on a server that asks for them."""

from cassandra import AuthenticationFailed, InvalidRequest, Unauthorized

from checks import Refused


def walk(place, report):
    if not place.user:
        report.check("a server that asks nobody takes any name", True,
                     lambda: place.connect(user="anyone", password="x") is not None)
        return
    report.check("a wrong password", Refused(AuthenticationFailed, "and/or password are incorrect"),
                 lambda: place.connect(user=place.user, password="wrong"))
    place.each("DROP ROLE IF EXISTS walker_bob",
               "CREATE ROLE walker_bob WITH PASSWORD = 'b' AND LOGIN = true",
               "CREATE TABLE guarded (k int PRIMARY KEY)")
    bob = place.connect(user="walker_bob", password="b")
    table = "walk_python.guarded"
    report.check("what was not granted", Refused(Unauthorized, "no SELECT permission on <table"),
                 lambda: bob.execute(f"SELECT * FROM {table}"))
    place.each(f"GRANT SELECT ON {table} TO walker_bob")
    report.check("what was", [], lambda: list(bob.execute(f"SELECT * FROM {table}")))
    report.check("and nothing else", Refused(Unauthorized, "no MODIFY permission"),
                 lambda: bob.execute(f"INSERT INTO {table} (k) VALUES (1)"))
    report.check("permissions are listed", [("walker_bob", "walker_bob",
                 "<table walk_python.guarded>", "SELECT")],
                 lambda: place.rows("LIST ALL PERMISSIONS OF walker_bob"))
    place.each("DROP ROLE walker_bob")
    report.check("a role that is gone", Refused(InvalidRequest, "doesn't exist"),
                 lambda: place.rows("DROP ROLE walker_bob"))
