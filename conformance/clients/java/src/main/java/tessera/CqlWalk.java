package tessera;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** Walks over the Cassandra front end with the Java driver: {@code HOST:PORT [USER PASSWORD]}. */
public final class CqlWalk {
  public static void main(String[] arguments) {
    Report report = new Report();
    for (String version : List.of("V3", "V4", "V5")) {
      // The fifth version has one compression only.
      for (String compression : version.equals("V5") ? List.of("lz4") : List.of("lz4", "snappy")) {
        walk(arguments, version, compression, report);
      }
    }
    report.finish();
  }

  private static void walk(String[] arguments, String version, String compression, Report report) {
    int colon = arguments[0].lastIndexOf(':');
    InetSocketAddress address =
        new InetSocketAddress(
            arguments[0].substring(0, colon), Integer.parseInt(arguments[0].substring(colon + 1)));
    DriverConfigLoader settings =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
            .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(10))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(10))
            .build();
    var builder =
        CqlSession.builder()
            .addContactPoint(address)
            .withLocalDatacenter("datacenter1")
            .withConfigLoader(settings);
    if (arguments.length == 3) {
      builder = builder.withAuthCredentials(arguments[1], arguments[2]);
    }
    String keyspace = "walk_" + Long.toHexString(System.nanoTime());
    try (CqlSession session = builder.build()) {
      session.execute(
          "CREATE KEYSPACE "
              + keyspace
              + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("USE " + keyspace);
      String name = version + " " + compression + ": ";
      keys(session, name, report);
      values(session, name, report);
      changes(session, name, report);
      session.execute("DROP KEYSPACE " + keyspace);
    }
  }

  private static List<Integer> numbers(ResultSet rows) {
    List<Integer> numbers = new ArrayList<>();
    for (Row row : rows) {
      numbers.add(row.getInt(0));
    }
    return numbers;
  }

  private static void keys(CqlSession session, String name, Report report) {
    report.area("keys");
    session.execute("CREATE TABLE single (id int PRIMARY KEY, v int)");
    session.execute(
        "CREATE TABLE compound (p int, c int, v int, PRIMARY KEY (p, c))"
            + " WITH CLUSTERING ORDER BY (c DESC)");
    session.execute("CREATE TABLE composite (a int, b text, c int, PRIMARY KEY ((a, b), c))");
    var single = session.prepare("INSERT INTO single (id, v) VALUES (?, ?)");
    var compound = session.prepare("INSERT INTO compound (p, c, v) VALUES (1, ?, ?)");
    var composite = session.prepare("INSERT INTO composite (a, b, c) VALUES (?, 'x', ?)");
    for (int n = 0; n < 40; n++) {
      session.execute(single.bind(n, n * n));
      session.execute(compound.bind(n, n));
      session.execute(composite.bind(n % 2, n));
    }
    var byKey = session.prepare("SELECT v FROM single WHERE id = ?");
    report.check(name + "a row by its key", List.of(49), () -> numbers(session.execute(byKey.bind(7))));
    report.check(
        name + "a slice in clustering order",
        List.of(6, 5, 4, 3),
        () -> numbers(session.execute("SELECT c FROM compound WHERE p = 1 AND c > 2 AND c <= 6")));
    var partition = session.prepare("SELECT c FROM composite WHERE a = ? AND b = ? LIMIT 3");
    report.check(
        name + "a partition by a composite key",
        List.of(1, 3, 5),
        () -> numbers(session.execute(partition.bind(1, "x"))));
    report.check(
        name + "pages hold every row once",
        IntStream.range(0, 40).boxed().toList(),
        () -> {
          var all = SimpleStatement.newInstance("SELECT id FROM single").setPageSize(7);
          return numbers(session.execute(all)).stream().sorted().toList();
        });
    report.check(
        name + "the driver knows the table",
        true,
        () ->
            session
                .refreshSchema()
                .getKeyspace(session.getKeyspace().orElseThrow())
                .orElseThrow()
                .getTable("composite")
                .orElseThrow()
                .getPartitionKey()
                .size()
                == 2);
  }

  private static void values(CqlSession session, String name, Report report) {
    report.area("values");
    session.execute(
        "CREATE TABLE \"values\" (id int PRIMARY KEY, t text, d double, l list<int>,"
            + " m map<text, bigint>, moment timestamp, span duration, n varint)");
    Instant moment = Instant.ofEpochMilli(1_700_000_000_123L);
    // The third version has no durations.
    CqlDuration span = name.startsWith("V3") ? null : CqlDuration.newInstance(1, 2, 3);
    var insert =
        session.prepare(
            "INSERT INTO \"values\" (id, t, d, l, m, moment, span, n) VALUES (1, ?, ?, ?, ?, ?, ?, ?)");
    var number = new java.math.BigInteger("123456789012345678901234567890");
    session.execute(
        insert.bind("Grüße", 1.5, List.of(3, 1, 2), Map.of("k", 7L), moment, span, number));
    report.check(
        name + "every type comes back as it was",
        java.util.Arrays.asList(
            "Grüße", 1.5, List.of(3, 1, 2), Map.of("k", 7L), moment, span, number),
        () -> {
          Row row =
              session
                  .execute("SELECT t, d, l, m, moment, span, n FROM \"values\" WHERE id = 1")
                  .one();
          List<Object> read = new ArrayList<>();
          for (int column = 0; column < 7; column++) {
            read.add(row.getObject(column));
          }
          return read;
        });
  }

  private static void changes(CqlSession session, String name, Report report) {
    report.area("statements");
    report.check(
        name + "a condition that does not hold",
        false,
        () -> session.execute("UPDATE single SET v = 0 WHERE id = 7 IF v = 1").wasApplied());
    report.check(
        name + "a condition that holds",
        true,
        () -> session.execute("UPDATE single SET v = 50 WHERE id = 7 IF v = 49").wasApplied());
    report.check(
        name + "a batch does all of it",
        List.of(100),
        () -> {
          session.execute(
              BatchStatement.newInstance(
                  DefaultBatchType.LOGGED,
                  SimpleStatement.newInstance("UPDATE single SET v = 100 WHERE id = 1"),
                  SimpleStatement.newInstance("DELETE FROM single WHERE id = 2")));
          return numbers(session.execute("SELECT v FROM single WHERE id IN (1, 2)"));
        });
    report.check(
        name + "the charge of a request",
        !name.startsWith("V3"),
        () -> {
          var payload = session.execute("SELECT v FROM single WHERE id = 1").getExecutionInfo();
          return payload.getIncomingPayload().containsKey("RequestCharge");
        });
    report.refused(
        name + "no such table",
        error -> error instanceof InvalidQueryException,
        () -> session.execute("SELECT * FROM nowhere"));
    report.refused(
        name + "what is no CQL", error -> error instanceof SyntaxError, () -> session.execute("SELEC 1"));
  }
}
