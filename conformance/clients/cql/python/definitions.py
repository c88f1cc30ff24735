"""Definitions, and what the driver makes of the schema's own tables."""

from cassandra import AlreadyExists, InvalidRequest
from cassandra.protocol import ConfigurationException, SyntaxException

from checks import Refused


def walk(place, report):
    session = place.session
    place.each(
        "CREATE TYPE address (street text, numbers frozen<list<int>>)",
        "CREATE TABLE people (id uuid PRIMARY KEY, name text, home frozen<address>, tags set<text>)",
        "CREATE INDEX people_by_name ON people (name)",
        "CREATE MATERIALIZED VIEW people_named AS SELECT * FROM people WHERE name IS NOT NULL "
        "AND id IS NOT NULL PRIMARY KEY (name, id)",
    )
    keyspace = lambda: session.cluster.metadata.keyspaces[session.keyspace]
    report.check("the driver sees the columns", ["id", "home", "name", "tags"],
                 lambda: list(keyspace().tables["people"].columns))
    report.check("and the index", ["people_by_name"], lambda: list(keyspace().indexes))
    report.check("and the view", ["people_named"], lambda: list(keyspace().views))
    report.check("and the type", ["street", "numbers"],
                 lambda: keyspace().user_types["address"].field_names)
    report.check("a column is added", True, lambda: altered(place, keyspace))
    report.check("what the driver prints can be run again", None, lambda: repeat(place, keyspace))
    report.check("DESCRIBE TABLE tells how to make it again", True,
                 lambda: "CREATE TABLE walk_python.people (" in described(place))
    report.check("a table that is there", Refused(AlreadyExists, "people"),
                 lambda: session.execute("CREATE TABLE people (k int PRIMARY KEY)"))
    report.check("no such table", Refused(InvalidRequest, "table nope does not exist"),
                 lambda: session.execute("SELECT * FROM nope"))
    report.check("no such class", Refused(ConfigurationException, "replication strategy"),
                 lambda: session.execute("CREATE KEYSPACE x WITH replication = {'class': 'X'}"))
    report.check("no CQL", Refused(SyntaxException, "line 1:"), lambda: session.execute("SELEC 1"))
    report.check("functions are disabled", Refused(InvalidRequest, "disabled"),
                 lambda: session.execute(
                     "CREATE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java "
                     "AS 'return a;'"))
    report.check("a type in use stays", Refused(InvalidRequest, "still used by tables"),
                 lambda: session.execute("DROP TYPE address"))
    place.each("DROP MATERIALIZED VIEW people_named", "DROP INDEX people_by_name",
               "DROP TABLE people", "DROP TYPE address")
    report.check("everything is gone", ([], []),
                 lambda: (list(keyspace().views), list(keyspace().user_types)))


def altered(place, keyspace):
    place.session.execute("ALTER TABLE people ADD born date")
    return "born" in keyspace().tables["people"].columns


def repeat(place, keyspace):
    text = keyspace().tables["people"].as_cql_query().replace("people", "people_again")
    place.each(text, "DROP TABLE people_again")


def described(place):
    return place.rows("DESCRIBE TABLE people")[0][3]
