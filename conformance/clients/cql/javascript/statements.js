// Statements: conditions, batches, counters, lives, errors.
"use strict";

const { types } = require("cassandra-driver");

const { Refused } = require("./checks");

async function walk(client, report) {
  const rows = async (query, parameters) =>
    (await client.execute(query, parameters, { prepare: true })).rows.map((row) => row.values());

  await client.execute("CREATE TABLE stock (item text PRIMARY KEY, amount int, tags set<text>)");
  const once = "INSERT INTO stock (item, amount) VALUES ('pen', 5) IF NOT EXISTS";
  await report.check("the first insert is applied", true, async () =>
    (await client.execute(once)).wasApplied(),
  );
  await report.check("the second is not, and says what is there", [false, 5], async () => {
    const result = await client.execute(once);
    return [result.wasApplied(), result.first().amount];
  });
  await report.check("a condition on a column", [true, false], async () => {
    const take = "UPDATE stock SET amount = ? WHERE item = 'pen' IF amount = ?";
    const one = await client.execute(take, [4, 5], { prepare: true });
    const other = await client.execute(take, [3, 5], { prepare: true });
    return [one.wasApplied(), other.wasApplied()];
  });
  await report.check("a batch is all or nothing", [["ink", 2], ["pen", 9]], async () => {
    const update = "UPDATE stock SET amount = ? WHERE item = ?";
    const batch = [
      { query: update, params: [9, "pen"] },
      { query: update, params: [2, "ink"] },
    ];
    await client.batch(batch, { prepare: true });
    const all = await rows("SELECT item, amount FROM stock");
    return all.sort();
  });
  await report.check("elements of a set", [[["a", "c"]]], async () => {
    await client.execute("UPDATE stock SET tags = {'a', 'b'} WHERE item = 'pen'");
    await client.execute("UPDATE stock SET tags = tags + {'c'} WHERE item = 'pen'");
    await client.execute("DELETE tags['b'] FROM stock WHERE item = 'pen'");
    return rows("SELECT tags FROM stock WHERE item = 'pen'");
  });
  await report.check("an index finds a value", [["pen"]], async () => {
    await client.execute("CREATE INDEX ON stock (amount)");
    return rows("SELECT item FROM stock WHERE amount = ?", [9]);
  });
  await report.check("counters count", "3", async () => {
    await client.execute("CREATE TABLE hits (page text PRIMARY KEY, n counter)");
    const add = "UPDATE hits SET n = n + ? WHERE page = 'home'";
    const one = types.Long.fromNumber(1);
    await Promise.all([1, 2, 3].map(() => client.execute(add, [one], { prepare: true })));
    return String((await rows("SELECT n FROM hits"))[0][0]);
  });
  await report.check("a life is counted down", true, async () => {
    await client.execute("INSERT INTO stock (item, amount) VALUES ('ice', 1) USING TTL 100");
    const [[left]] = await rows("SELECT ttl(amount) FROM stock WHERE item = 'ice'");
    return left > 0 && left <= 100;
  });
  await report.check("the charge comes along", true, async () => {
    const { info } = await client.execute("SELECT * FROM stock WHERE item = 'pen'");
    return info.customPayload.RequestCharge.readDoubleBE(0) >= 1;
  });
  await report.check("words that are none", new Refused(0x2000), () =>
    client.execute("SELEC * FROM stock"),
  );
  await report.check(
    "a table that is not there",
    new Refused(0x2200, "table nothing does not exist"),
    () => client.execute("SELECT * FROM nothing"),
  );
  await report.check("a table that is there", new Refused(0x2400), () =>
    client.execute("CREATE TABLE stock (item text PRIMARY KEY)"),
  );
}

module.exports = { walk };
