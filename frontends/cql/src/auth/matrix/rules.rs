//! What Cassandra 5.0 asks for each statement, written down apart from the code that asks.
//!
//! A line is a statement and what it needs, of which each part may also be had on what is above:
//! see [`above`]. `docs/cassandra-permissions.md` is printed from here.

/// Who asks is `eve`. In `ks` are the table `t` with the view `mv` and the index `t_v`, the table
/// `u` and the type `y`; `boss` is a superuser, `target` and `another` are roles without grants.
pub(super) const RULES: &str = "
SELECT * FROM ks.t                                          :: SELECT on TABLE ks.t
SELECT JSON k FROM ks.t WHERE k = 1                         :: SELECT on TABLE ks.t
SELECT count(*) FROM ks.t WHERE v = 1 ALLOW FILTERING       :: SELECT on TABLE ks.t
SELECT * FROM ks.mv                                         :: SELECT on TABLE ks.t
SELECT * FROM system.local                                  :: nothing
SELECT * FROM system.peers                                  :: nothing
SELECT * FROM system.peers_v2                               :: nothing
SELECT * FROM system_schema.tables                          :: nothing
SELECT * FROM system_schema.keyspaces                       :: nothing
SELECT * FROM system_virtual_schema.tables                  :: nothing
SELECT * FROM system.prepared_statements                    :: SELECT on TABLE system.prepared_statements
SELECT * FROM system.size_estimates                         :: SELECT on TABLE system.size_estimates
SELECT * FROM system_auth.roles                             :: SELECT on TABLE system_auth.roles
SELECT * FROM system_auth.role_permissions                  :: SELECT on TABLE system_auth.role_permissions
SELECT * FROM system_views.clients                          :: SELECT on TABLE system_views.clients
SELECT * FROM system_views.partitions                       :: SELECT on TABLE system_views.partitions
SELECT * FROM system_traces.sessions                        :: SELECT on TABLE system_traces.sessions
SELECT * FROM system_traces.events                          :: SELECT on TABLE system_traces.events
INSERT INTO ks.t (k, v) VALUES (1, 2)                       :: MODIFY on TABLE ks.t
INSERT INTO ks.t (k, v) VALUES (1, 2) USING TTL 5           :: MODIFY on TABLE ks.t
INSERT INTO ks.t (k, v) VALUES (1, 2) IF NOT EXISTS         :: MODIFY on TABLE ks.t + SELECT on TABLE ks.t
INSERT INTO ks.t JSON '{\"k\": 1}'                            :: MODIFY on TABLE ks.t
INSERT INTO ks.t JSON '{\"k\": 1}' IF NOT EXISTS              :: MODIFY on TABLE ks.t + SELECT on TABLE ks.t
UPDATE ks.t SET v = 2 WHERE k = 1                           :: MODIFY on TABLE ks.t
UPDATE ks.t SET v = 2 WHERE k = 1 IF EXISTS                 :: MODIFY on TABLE ks.t + SELECT on TABLE ks.t
UPDATE ks.t SET v = 2 WHERE k = 1 IF v = 1                  :: MODIFY on TABLE ks.t + SELECT on TABLE ks.t
DELETE FROM ks.t WHERE k = 1                                :: MODIFY on TABLE ks.t
DELETE v FROM ks.t USING TIMESTAMP 5 WHERE k = 1            :: MODIFY on TABLE ks.t
DELETE FROM ks.t WHERE k = 1 IF v = 1                       :: MODIFY on TABLE ks.t + SELECT on TABLE ks.t
BEGIN BATCH DELETE FROM ks.t WHERE k = 1; DELETE FROM ks.u WHERE k = 1; APPLY BATCH :: MODIFY on TABLE ks.t + MODIFY on TABLE ks.u
BEGIN UNLOGGED BATCH USING TIMESTAMP 5 INSERT INTO ks.u (k) VALUES (1); APPLY BATCH :: MODIFY on TABLE ks.u
BEGIN BATCH UPDATE ks.t SET v = 1 WHERE k = 1 IF v = 2; APPLY BATCH :: MODIFY on TABLE ks.t + SELECT on TABLE ks.t
BEGIN BATCH APPLY BATCH                                     :: nothing
USE ks                                                      :: nothing
TRUNCATE ks.t                                               :: MODIFY on TABLE ks.t
CREATE KEYSPACE x WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} :: CREATE on ALL KEYSPACES
ALTER KEYSPACE ks WITH durable_writes = false               :: ALTER on KEYSPACE ks
DROP KEYSPACE ks                                            :: DROP on KEYSPACE ks
CREATE TABLE ks.x (k int PRIMARY KEY)                       :: CREATE on ALL TABLES IN KEYSPACE ks
ALTER TABLE ks.t ADD x int                                  :: ALTER on TABLE ks.t
DROP TABLE ks.u                                             :: DROP on TABLE ks.u
CREATE TYPE ks.x (a int)                                    :: CREATE on ALL TABLES IN KEYSPACE ks
ALTER TYPE ks.y ADD b int                                   :: ALTER on ALL TABLES IN KEYSPACE ks
DROP TYPE ks.y                                              :: DROP on ALL TABLES IN KEYSPACE ks
CREATE INDEX ON ks.u (v)                                    :: ALTER on TABLE ks.u
DROP INDEX ks.t_v                                           :: ALTER on TABLE ks.t
CREATE MATERIALIZED VIEW ks.x AS SELECT * FROM ks.u WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k) :: ALTER on TABLE ks.u + SELECT on TABLE ks.u
ALTER MATERIALIZED VIEW ks.mv WITH comment = 'x'            :: ALTER on TABLE ks.t
DROP MATERIALIZED VIEW ks.mv                                :: ALTER on TABLE ks.t
CREATE FUNCTION ks.f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;' :: CREATE on ALL FUNCTIONS IN KEYSPACE ks
DROP FUNCTION ks.f                                          :: DROP on ALL FUNCTIONS IN KEYSPACE ks
CREATE AGGREGATE ks.a (int) SFUNC f STYPE int               :: CREATE on ALL FUNCTIONS IN KEYSPACE ks
DROP AGGREGATE ks.a                                         :: DROP on ALL FUNCTIONS IN KEYSPACE ks
CREATE TRIGGER x ON ks.t USING 'x'                          :: superuser
DROP TRIGGER x ON ks.t                                      :: superuser
DESCRIBE KEYSPACES                                          :: nothing
DESCRIBE TABLE ks.t                                         :: nothing
CREATE ROLE x WITH PASSWORD = 'x' AND LOGIN = true          :: CREATE on ALL ROLES
CREATE ROLE x WITH SUPERUSER = true                         :: superuser
CREATE USER x WITH PASSWORD 'x' SUPERUSER                   :: superuser
ALTER ROLE target WITH PASSWORD = 'x'                       :: ALTER on ROLE target
ALTER ROLE target WITH ACCESS TO ALL DATACENTERS            :: ALTER on ROLE target
ALTER ROLE target WITH SUPERUSER = true                     :: superuser
ALTER ROLE boss WITH PASSWORD = 'x'                         :: superuser
ALTER ROLE eve WITH PASSWORD = 'x'                          :: nothing
ALTER ROLE eve WITH LOGIN = true                            :: superuser
ALTER ROLE eve WITH ACCESS TO ALL DATACENTERS               :: superuser
DROP ROLE target                                            :: DROP on ROLE target
DROP ROLE boss                                              :: superuser
GRANT SELECT ON ks.t TO target                              :: AUTHORIZE on TABLE ks.t + SELECT on TABLE ks.t
GRANT MODIFY, DROP ON KEYSPACE ks TO target                 :: AUTHORIZE on KEYSPACE ks + MODIFY on KEYSPACE ks + DROP on KEYSPACE ks
GRANT CREATE ON ALL KEYSPACES TO target                     :: AUTHORIZE on ALL KEYSPACES + CREATE on ALL KEYSPACES
GRANT ALTER ON ROLE another TO target                       :: AUTHORIZE on ROLE another + ALTER on ROLE another
GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE ks TO target     :: AUTHORIZE on ALL FUNCTIONS IN KEYSPACE ks + EXECUTE on ALL FUNCTIONS IN KEYSPACE ks
REVOKE SELECT ON ks.t FROM target                           :: AUTHORIZE on TABLE ks.t + SELECT on TABLE ks.t
GRANT another TO target                                     :: AUTHORIZE on ROLE another
GRANT boss TO target                                        :: superuser
REVOKE another FROM target                                  :: AUTHORIZE on ROLE another
LIST ROLES                                                  :: nothing
LIST USERS                                                  :: nothing
LIST ALL PERMISSIONS OF eve                                 :: nothing
ADD IDENTITY 'x' TO ROLE 'eve'                              :: CREATE on ROLE eve
DROP IDENTITY 'x'                                           :: DROP on ROLE eve
";

/// What is said in words around the table of statements.
pub(super) const BEFORE: &str = "\
# Permissions of the Cassandra API

What a role must have been granted to run a statement, if logins are required. Superusers may do
everything. A permission counts on what is named or on anything above it: a table, all tables of its
keyspace, the keyspace, all keyspaces; a role, all roles; the functions of a keyspace, all functions.
Roles have what was granted to the roles that were granted to them. A change counts from the next
statement on, also for connections that are open and statements that are prepared; on other servers of the
same store within a second. A role that was dropped, or altered to `LOGIN = false`, is refused at once.

This file is printed by a test, which compares each line with what the server does:
`TESSERA_UPDATE_DOCS=1 cargo test -p tessera-cql permissions_are_documented`.

";

pub(super) const AFTER: &str = "
Every role may read `system.local`, `system.peers`, `system.peers_v2`, `system_schema` and
`system_virtual_schema`, and hear of changes of definitions. Whoever makes something may do
everything with it. `LIST ROLES` and `LIST PERMISSIONS` show a role itself and what was granted to it; with
DESCRIBE on all roles, everything. A statement that a role may not run it cannot prepare either.

Where Cassandra 5.0 asks for something else:

| Statement | Cassandra | Here | Why |
|---|---|---|---|
| CREATE MATERIALIZED VIEW | ALTER on the table | SELECT on it as well | a view shows its rows |
| writes to a table with views | SELECT on the table and MODIFY on the views as well | MODIFY on the table | what the writer may do does not depend on who made views |
| ALTER ROLE of a superuser | ALTER on it | superuser | whoever sets its password is that role |
| GRANT of a superuser's role | AUTHORIZE on it | superuser | nobody makes superusers but superusers |
| ALTER ROLE of oneself, ACCESS | nothing | superuser | nobody lifts their own restriction |
| DROP FUNCTION, DROP AGGREGATE | nothing if there is none | DROP on the functions of the keyspace | there are no functions of users |
";

/// Where else a permission counts, nearest first.
pub(super) fn above(place: &str) -> Vec<String> {
    let mut places = vec![place.to_owned()];
    let keyspace = |places: &mut Vec<String>, keyspace: &str| {
        places.extend([format!("KEYSPACE {keyspace}"), "ALL KEYSPACES".to_owned()]);
    };
    let words: Vec<&str> = place.split(' ').collect();
    match words.as_slice() {
        ["TABLE", table] => {
            let (name, _) = table.split_once('.').unwrap();
            places.push(format!("ALL TABLES IN KEYSPACE {name}"));
            keyspace(&mut places, name);
        }
        ["ALL", "TABLES", "IN", "KEYSPACE", name] => keyspace(&mut places, name),
        ["KEYSPACE", _] => places.push("ALL KEYSPACES".to_owned()),
        ["ROLE", _] => places.push("ALL ROLES".to_owned()),
        ["ALL", "FUNCTIONS", "IN", "KEYSPACE", _] => places.push("ALL FUNCTIONS".to_owned()),
        ["ALL", "KEYSPACES" | "ROLES" | "FUNCTIONS"] => {}
        other => panic!("{other:?}"),
    }
    places
}
