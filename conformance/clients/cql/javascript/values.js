// Values of every type that the driver has, there and back.
"use strict";

const { types } = require("cassandra-driver");

const { Refused } = require("./checks");

// Type, value, and how to show it; without the last, what came is compared with what was sent.
const VALUES = [
  ["ascii", "plain"],
  ["text", "naïve ☕ 😀"],
  ["bigint", types.Long.fromString("-9223372036854775808"), String],
  ["blob", Buffer.from([0, 255, 128]), (value) => value.toString("hex")],
  ["boolean", true],
  ["date", types.LocalDate.fromString("1969-12-31"), String],
  ["decimal", types.BigDecimal.fromString("-0.000000000000000000001"), String],
  ["double", 1.5e300],
  ["duration", types.Duration.fromString("1mo2d3h"), String],
  ["float", -0.25],
  ["inet", types.InetAddress.fromString("2001:db8::1"), String],
  ["int", -2147483648],
  ["smallint", -32768],
  ["time", types.LocalTime.fromString("23:59:59.999999999"), String],
  ["timestamp", new Date(Date.UTC(2026, 10, 16)), (value) => value.toISOString()],
  ["timeuuid", types.TimeUuid.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f"), String],
  ["tinyint", -128],
  ["uuid", types.Uuid.fromString("123e4567-e89b-42d3-a456-426614174000"), String],
  ["varint", types.Integer.fromString("-123456789012345678901234567890"), String],
  ["list<int>", [3, 1, 2]],
  ["set<text>", ["a", "b"]],
  ["map<text, int>", { one: 1, two: 2 }],
  ["frozen<map<int, frozen<list<text>>>>", { 1: ["x"], 2: ["y", "z"] }],
  ["tuple<int, text>", new types.Tuple(1, "x"), (value) => JSON.stringify(value.values())],
  ["address", { street: "Main", number: 1 }],
];

async function walk(client, report) {
  await client.execute("CREATE TYPE address (street text, number int)");
  const columns = VALUES.map(([type], index) => `v${index} ${type}`);
  await client.execute(`CREATE TABLE kinds (id int PRIMARY KEY, ${columns.join(", ")})`);
  for (const [index, [type, value, shown]] of VALUES.entries()) {
    const show = shown ?? ((same) => same);
    await report.check(`${type}`, [show(value), null], async () => {
      const insert = `INSERT INTO kinds (id, v${index}) VALUES (?, ?)`;
      await client.execute(insert, [index, value], { prepare: true });
      await client.execute(insert, [1000 + index, null], { prepare: true });
      const select = `SELECT v${index} FROM kinds WHERE id = ?`;
      const read = async (id) =>
        (await client.execute(select, [id], { prepare: true })).first().get(0);
      const back = await read(index);
      // A user type comes as an object of the driver's own kind.
      return [show(type === "address" ? { ...back } : back), await read(1000 + index)];
    });
  }
  await report.check(
    "one of another type is refused",
    new Refused(0x2200, "Invalid STRING constant"),
    () => client.execute("INSERT INTO kinds (id, v11) VALUES (1, 'x')"),
  );
}

module.exports = { walk };
