// The three designs of a primary key, and what the driver knows of them.
"use strict";

const { types } = require("cassandra-driver");

async function walk(client, report, keyspace) {
  const rows = async (query, parameters) =>
    (await client.execute(query, parameters, { prepare: true })).rows.map((row) => row.values());

  await client.execute("CREATE TABLE people (id int PRIMARY KEY, name text)");
  await client.execute("INSERT INTO people (id, name) VALUES (?, ?)", [1, "Ada"], {
    prepare: true,
  });
  await report.check("one column finds its row", [[1, "Ada"]], () =>
    rows("SELECT id, name FROM people WHERE id = ?", [1]),
  );

  await client.execute(
    "CREATE TABLE readings (sensor text, at timestamp, value double, place text STATIC, " +
      "PRIMARY KEY (sensor, at)) WITH CLUSTERING ORDER BY (at DESC)",
  );
  const insert = "INSERT INTO readings (sensor, at, value, place) VALUES (?, ?, ?, ?)";
  for (let hour = 0; hour < 4; hour += 1) {
    const at = new Date(Date.UTC(2026, 0, 1, hour));
    await client.execute(insert, ["a", at, hour / 2, "roof"], { prepare: true });
  }
  await report.check("a partition comes newest first", [1.5, 1, 0.5, 0], async () =>
    (await rows("SELECT value FROM readings WHERE sensor = ?", ["a"])).map(([value]) => value),
  );
  await report.check("a slice of a partition", [[0.5, "roof"]], () =>
    rows("SELECT value, place FROM readings WHERE sensor = ? AND at > ? AND at < ?", [
      "a",
      new Date(Date.UTC(2026, 0, 1, 0)),
      new Date(Date.UTC(2026, 0, 1, 2)),
    ]),
  );

  await client.execute(
    "CREATE TABLE orders (tenant text, day date, number int, total decimal, " +
      "PRIMARY KEY ((tenant, day), number))",
  );
  const day = types.LocalDate.fromString("2026-01-31");
  const total = types.BigDecimal.fromString("12.50");
  await client.execute("INSERT INTO orders (tenant, day, number, total) VALUES (?, ?, ?, ?)", [
    "acme", day, 7, total,
  ], { prepare: true });
  await report.check("a key of two columns", ["2026-01-31", 7, "12.50"], async () => {
    const [row] = await rows(
      "SELECT day, number, total FROM orders WHERE tenant = ? AND day = ?",
      ["acme", day],
    );
    return [row[0].toString(), row[1], row[2].toString()];
  });

  await report.check("the driver learns the key", ["tenant", "day", "number"], async () => {
    const table = await client.metadata.getTable(keyspace, "orders");
    return [...table.partitionKeys, ...table.clusteringKeys].map((column) => column.name);
  });
  await report.check("the driver finds the replica of a key", 1, () => {
    return client.getReplicas(keyspace, Buffer.from([0, 0, 0, 1])).length;
  });
}

module.exports = { walk };
