// Walks over the Cassandra front end with gocql.
//
//	go run ./cql [-ca FILE] [-user NAME -password WORD] 127.0.0.1:9042
package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"tessera.example/walks/walk"
)

func main() {
	options := walk.Read()
	report := walk.Begin()
	for _, version := range []int{3, 4, 5} {
		if err := run(options, version, report); err != nil {
			report.Finish(fmt.Errorf("version %d: %w", version, err))
			return
		}
	}
	report.Finish(nil)
}

func connect(options walk.Options, version int, keyspace string) (*gocql.Session, error) {
	cluster := gocql.NewCluster(options.Endpoint)
	cluster.ProtoVersion = version
	cluster.Keyspace = keyspace
	cluster.Timeout = 10 * time.Second
	if options.User != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{
			Username: options.User, Password: options.Password,
		}
	}
	trust, err := options.Trust()
	if err != nil {
		return nil, err
	}
	if trust != nil {
		cluster.SslOpts = &gocql.SslOptions{Config: trust, EnableHostVerification: true}
	}
	return cluster.CreateSession()
}

func run(options walk.Options, version int, report *walk.Report) error {
	first, err := connect(options, version, "")
	if err != nil {
		return err
	}
	defer first.Close()
	keyspace := walk.Name()
	replication := "{'class': 'SimpleStrategy', 'replication_factor': 1}"
	create := fmt.Sprintf("CREATE KEYSPACE %s WITH replication = %s", keyspace, replication)
	if err := first.Query(create).Exec(); err != nil {
		return err
	}
	defer first.Query("DROP KEYSPACE " + keyspace).Exec()
	session, err := connect(options, version, keyspace)
	if err != nil {
		return err
	}
	defer session.Close()
	for _, part := range []func(*gocql.Session, string, *walk.Report) error{
		keys, values, pages, changes,
	} {
		if err := part(session, fmt.Sprintf("version %d: ", version), report); err != nil {
			return err
		}
	}
	return nil
}

// numbers is the first column of every row.
func numbers(query *gocql.Query) ([]int, error) {
	var found []int
	rows := query.Iter()
	var number int
	for rows.Scan(&number) {
		found = append(found, number)
	}
	return found, rows.Close()
}

func all(session *gocql.Session, statements ...string) error {
	for _, statement := range statements {
		if err := session.Query(statement).Exec(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// keys walks over the three designs of a primary key.
func keys(session *gocql.Session, version string, report *walk.Report) error {
	report.Area = "keys"
	if err := all(session,
		"CREATE TABLE single (id int PRIMARY KEY, v int)",
		"CREATE TABLE compound (p int, c int, v int, PRIMARY KEY (p, c)) "+
			"WITH CLUSTERING ORDER BY (c DESC)",
		"CREATE TABLE composite (a int, b text, c int, PRIMARY KEY ((a, b), c))",
	); err != nil {
		return err
	}
	for n := range 20 {
		if err := session.Query("INSERT INTO single (id, v) VALUES (?, ?)", n, n*n).Exec(); err != nil {
			return err
		}
		if err := session.Query("INSERT INTO compound (p, c, v) VALUES (1, ?, ?)", n, n).Exec(); err != nil {
			return err
		}
		if err := session.Query("INSERT INTO composite (a, b, c) VALUES (?, 'x', ?)", n%2, n).Exec(); err != nil {
			return err
		}
	}
	found, err := numbers(session.Query("SELECT v FROM single WHERE id = ?", 7))
	report.Check(version+"a row by its key", []int{49}, found, err)
	found, err = numbers(session.Query("SELECT c FROM compound WHERE p = 1 AND c > ? AND c <= ?", 2, 6))
	report.Check(version+"a slice in clustering order", []int{6, 5, 4, 3}, found, err)
	found, err = numbers(session.Query("SELECT c FROM composite WHERE a = ? AND b = ? LIMIT 3", 1, "x"))
	report.Check(version+"a partition by a composite key", []int{1, 3, 5}, found, err)
	return nil
}

func values(session *gocql.Session, version string, report *walk.Report) error {
	report.Area = "values"
	if err := all(session, "CREATE TABLE \"values\" (id uuid PRIMARY KEY, t text, b blob, d double, "+
		"l list<int>, m map<text, bigint>, moment timestamp, span duration)"); err != nil {
		return err
	}
	id, err := gocql.RandomUUID()
	if err != nil {
		return err
	}
	moment := time.UnixMilli(1_700_000_000_123).UTC()
	span := gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}
	inserted := []any{id, "Grüße", []byte{0, 255}, 1.5, []int{3, 1, 2}, map[string]int64{"k": 7}, moment, span}
	insert := "INSERT INTO \"values\" (id, t, b, d, l, m, moment, span) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	if err := session.Query(insert, inserted...).Exec(); err != nil {
		return err
	}
	var (
		t     string
		b     []byte
		d     float64
		l     []int
		m     map[string]int64
		at    time.Time
		spans gocql.Duration
	)
	select_ := "SELECT t, b, d, l, m, moment, span FROM \"values\" WHERE id = ?"
	err = session.Query(select_, id).Scan(&t, &b, &d, &l, &m, &at, &spans)
	read := []any{id, t, b, d, l, m, at.UTC(), spans}
	report.Check(version+"every type comes back as it was", inserted, read, err)
	return nil
}

func pages(session *gocql.Session, version string, report *walk.Report) error {
	report.Area = "paging"
	if err := all(session, "CREATE TABLE pages (id int PRIMARY KEY)"); err != nil {
		return err
	}
	var expected []int
	for n := range 300 {
		expected = append(expected, n)
		if err := session.Query("INSERT INTO pages (id) VALUES (?)", n).Exec(); err != nil {
			return err
		}
	}
	found, err := numbers(session.Query("SELECT id FROM pages").PageSize(17))
	slices.Sort(found)
	report.Check(version+"pages hold every row once", expected, found, err)
	return nil
}

func changes(session *gocql.Session, version string, report *walk.Report) error {
	report.Area = "statements"
	before := map[string]any{}
	applied, err := session.Query("UPDATE single SET v = 0 WHERE id = 7 IF v = 1").MapScanCAS(before)
	report.Check(version+"a condition that does not hold", []any{false, 49}, []any{applied, before["v"]}, err)
	applied, err = session.Query("INSERT INTO single (id, v) VALUES (99, 1) IF NOT EXISTS").
		MapScanCAS(map[string]any{})
	report.Check(version+"a condition that holds", true, applied, err)
	batch := session.Batch(gocql.LoggedBatch)
	batch.Query("UPDATE single SET v = ? WHERE id = 1", 100)
	batch.Query("DELETE FROM single WHERE id = ?", 2)
	if err := batch.Exec(); err != nil {
		return err
	}
	found, err := numbers(session.Query("SELECT v FROM single WHERE id IN (1, 2)"))
	report.Check(version+"a batch does all of it", []int{100}, found, err)
	if err := all(session, "CREATE TABLE counts (id int PRIMARY KEY, n counter)",
		"UPDATE counts SET n = n + 2 WHERE id = 1", "UPDATE counts SET n = n + 2 WHERE id = 1",
	); err != nil {
		return err
	}
	found, err = numbers(session.Query("SELECT n FROM counts"))
	report.Check(version+"a counter", []int{4}, found, err)
	err = session.Query("SELECT * FROM nowhere").Exec()
	var refusal gocql.RequestError
	is := errors.As(err, &refusal) && refusal.Code() == gocql.ErrCodeInvalid
	report.Refused(version+"no such table", is, err)
	err = session.Query("SELEC 1").Exec()
	is = errors.As(err, &refusal) && refusal.Code() == gocql.ErrCodeSyntax
	report.Refused(version+"what is no CQL", is, err)
	return nil
}
