// Queries: filters, selections, pages, order.
"use strict";

const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { odata } = require("@azure/data-tables");

const { Refused } = require("./checks");

const row = (rowKey, properties) => ({ partitionKey: "p", rowKey, ...properties });
const guid = (digit) => ({ type: "Guid", value: `00000000-0000-0000-0000-00000000000${digit}` });
const year = (number) => new Date(Date.UTC(number, 0, 1));

// The entities that filters.txt describes.
const ROWS = [
  row("1", {
    text: "apple", count: 1, big: 2n ** 40n, ratio: 0.5, flag: true, at: year(2020), uid: guid(1),
    bytes: Uint8Array.of(1),
  }),
  row("2", {
    text: "Banana", count: 2, big: -(2n ** 40n), ratio: 1.5, flag: false, at: year(2021),
    uid: guid(2), bytes: Uint8Array.of(2),
  }),
  row("3", {
    text: "it's", count: 3, big: 0n, ratio: -2.25, flag: true, at: year(2022), uid: guid(3),
    bytes: Uint8Array.of(3, 255),
  }),
  row("4"),
];

// Filters whose values the SDK writes.
const TEMPLATES = [
  [odata`text eq ${"it's"}`, ["3"]],
  [odata`count eq ${2}`, ["2"]],
  [odata`ratio lt ${-0.5}`, ["3"]],
  [odata`flag eq ${false}`, ["2"]],
  [odata`at ge ${year(2021)}`, ["2", "3"]],
];

async function walk(account, report) {
  const table = await account.newTable(ROWS);
  for (const [filter, expected] of writtenFilters()) {
    await report.check(filter, expected, () => keysOf(table, { filter }));
  }
  for (const [filter, expected] of TEMPLATES) {
    await report.check(`${filter} by template`, expected, () =>
      keysOf(table, { filter }));
  }
  await walkSelections(table, report);
  await walkOrder(account, report);
  await walkPages(account, report);
}

// The rows of filters.txt: a filter, and the row keys or the refusal.
function writtenFilters() {
  const text = readFileSync(join(__dirname, "..", "filters.txt"), "utf8");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const [, filter, expected] = /^(.*) =>(.*)$/.exec(line);
    const words = expected.split(" ").filter((word) => word !== "");
    const refused = words[0] === "400";
    return [filter, refused ? new Refused(400, ...words.slice(1)) : words];
  });
}

async function walkSelections(table, report) {
  const selected = async (select, filter) => {
    const found = [];
    for await (const entity of table.listEntities({ queryOptions: { select, filter } })) {
      const { etag, ...rest } = entity;
      found.push(Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null)));
    }
    return found;
  };
  await report.check(
    "select",
    [{ text: "apple" }, { text: "Banana" }, { text: "it's" }, {}],
    () => selected(["text"]),
  );
  await report.check("select keys and a property", [{ rowKey: "2", count: 2 }], () =>
    selected(["rowKey", "count"], "count eq 2"));
  await report.check("a filter may name what is not selected", [{ text: "it's" }], () =>
    selected(["text"], "count eq 3"));
}

async function walkOrder(account, report) {
  const pairs = [];
  for (const partitionKey of ["y", "x", "X"]) {
    for (const rowKey of ["b", "a", "B", "_", "10", "9", "ä", "aa", ""]) {
      pairs.push({ partitionKey, rowKey });
    }
  }
  const table = await account.newTable(pairs);
  const inOrder = pairs.map((pair) => [pair.partitionKey, pair.rowKey]).sort(byBoth);
  const listed = async () => {
    const found = [];
    for await (const each of table.listEntities()) found.push([each.partitionKey, each.rowKey]);
    return found;
  };
  if (account.cosmos) {
    await report.check("complete, in whatever order", inOrder, async () =>
      (await listed()).sort(byBoth));
  } else {
    await report.check("ordered by PartitionKey, then RowKey", inOrder, listed);
  }
}

function byBoth([partition, key], [otherPartition, otherKey]) {
  const compare = (one, other) => (one < other ? -1 : Number(one > other));
  return compare(partition, otherPartition) || compare(key, otherKey);
}

async function walkPages(account, report) {
  const table = await account.newTable();
  const rows = Array.from({ length: 1105 }, (_, index) => String(index).padStart(4, "0"));
  for (let begin = 0; begin < rows.length; begin += 100) {
    const some = rows.slice(begin, begin + 100);
    await table.submitTransaction(some.map((key) => ["create", row(key)]));
  }
  const pages = async (maxPageSize, continuationToken) => {
    const read = [];
    for await (const page of table.listEntities().byPage({ maxPageSize, continuationToken })) {
      read.push(page.map((entity) => entity.rowKey));
    }
    return read;
  };
  await report.check("all of more than 1000 entities, in order", rows, () =>
    keysOf(table, {}));
  await report.check("no page has more than 1000 entities", true, async () =>
    (await pages()).every((page) => page.length <= 1000));
  await report.check("pages of 300", rows, async () =>
    (await pages(300)).filter((page) => page.length <= 300).flat());
  await report.check("go on from a continuation", rows.slice(10), async () => {
    const first = await table.listEntities().byPage({ maxPageSize: 10 }).next();
    return (await pages(1000, first.value.continuationToken)).flat();
  });
  const topOf1001 = account.cosmos ? rows.slice(0, 1001) : new Refused(400, "InvalidInput");
  await report.check("$top=1001", topOf1001, async () => (await pages(1001))[0]);
  await report.check("pages of a filter", rows.slice(500), () =>
    keysOf(table, { filter: "RowKey ge '0500'" }));
}

async function keysOf(table, queryOptions) {
  const keys = [];
  for await (const entity of table.listEntities({ queryOptions })) keys.push(entity.rowKey);
  return keys;
}

module.exports = { walk };
