// Results in pages: one after the other, as a stream, and from a state that was kept.
"use strict";

const COUNT = 250;

async function walk(client, report) {
  await client.execute("CREATE TABLE many (part int, place int, PRIMARY KEY (part, place))");
  const insert = "INSERT INTO many (part, place) VALUES (?, ?)";
  for (let part = 0; part < 5; part += 1) {
    const batch = Array.from({ length: COUNT / 5 }, (_, place) => ({
      query: insert,
      params: [part, place],
    }));
    await client.batch(batch, { prepare: true, logged: false });
  }
  const all = "SELECT part, place FROM many";
  await report.check("a stream has every row once", COUNT, async () => {
    const seen = new Set();
    const options = { prepare: true, fetchSize: 17, autoPage: true };
    for await (const row of client.stream(all, [], options)) {
      seen.add(`${row.part}/${row.place}`);
    }
    return seen.size;
  });
  await report.check("a kept state goes on behind its page", [20, 20, 40], async () => {
    const first = await client.execute(all, [], { prepare: true, fetchSize: 20 });
    const next = { prepare: true, fetchSize: 20, pageState: first.pageState };
    const second = await client.execute(all, [], next);
    const names = [...first.rows, ...second.rows].map((row) => `${row.part}/${row.place}`);
    return [first.rowLength, second.rowLength, new Set(names).size];
  });
  await report.check("a partition in order, over pages", true, async () => {
    const places = [];
    const query = "SELECT place FROM many WHERE part = 3 ORDER BY place DESC";
    for await (const row of client.stream(query, [], { fetchSize: 7, autoPage: true })) {
      places.push(row.place);
    }
    return places.every((place, index) => place === COUNT / 5 - 1 - index);
  });
  await report.check("tokens cover every row once", COUNT, async () => {
    const half = async (condition) =>
      (await client.execute(`SELECT part FROM many WHERE ${condition}`)).rowLength;
    return (await half("token(part) <= 0")) + (await half("token(part) > 0"));
  });
}

module.exports = { walk };
