// Entities: insert, get, replace, merge, upsert, delete, and the conditions on them.
"use strict";

const { odata } = require("@azure/data-tables");

const { Matches } = require("../../report");
const { Refused } = require("./checks");

const ETAG = /^W\/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d\.\d{1,7}Z'"$/;
const NOT_THERE = new Refused(404, "ResourceNotFound");
const STALE = new Refused(412, "UpdateConditionNotSatisfied");

// Keys that need care in URLs, in filters or in JSON.
const KEYS = [
  "", " ", "it's", "''", "a b+c", "100%", "%27", "a&b=c", "a,b", "(a)", '"', "<x>", "ä ö ü",
  "日本", "😀", "a:b;c@d!$*~", "[{}]|^`",
];

async function walk(account, report) {
  const table = await account.newTable();
  await walkInsert(account, table, report);
  await walkUpdate(table, report);
  await walkUpsert(table, report);
  await walkConditions(table, report);
  for (const key of [...KEYS, "x".repeat(account.cosmos ? 255 : 512)]) {
    const name = `the keys ${JSON.stringify(key.slice(0, 20))}`;
    await report.check(name, [key, key], () => thereAndBack(table, key));
  }
}

const entity = (rowKey, properties) => ({ partitionKey: "p", rowKey, ...properties });

// What is stored, without what the service adds.
async function stored(table, rowKey, queryOptions) {
  const { etag, timestamp, "odata.metadata": metadata, ...rest } = await table.getEntity(
    "p",
    rowKey,
    { queryOptions },
  );
  return rest;
}

async function walkInsert(account, table, report) {
  // The SDK asks for no content.
  await report.check("insert", [204, "return-no-content"], async () => {
    await table.createEntity(entity("insert", { a: 1, b: "two" }));
    return account.answers.lastWith("preference-applied");
  });
  await report.check("insert gives an ETag", new Matches("an ETag made of a time",
    (etag) => ETAG.test(etag)), async () => (await table.createEntity(entity("etag"))).etag);
  await report.check("insert without content says where", new Matches(
    "the address of the entity",
    (location) => location.endsWith(`${table.tableName}(PartitionKey='p',RowKey='where')`),
  ), async () => {
    await table.createEntity(entity("where"));
    return decodeURIComponent(account.answers.lastWith("location")[1]);
  });
  await report.check("insert again is refused",
    new Refused(409, "EntityAlreadyExists"), () => table.createEntity(entity("insert")));
  await report.check("get", entity("insert", { a: 1, b: "two" }), () =>
    stored(table, "insert"));
  await report.check("get only some properties", { b: "two" }, () =>
    stored(table, "insert", { select: ["b"] }));
  await report.check("get what is not there", NOT_THERE, () => stored(table, "nothing"));
}

async function walkUpdate(table, report) {
  await table.createEntity(entity("update", { a: 1, b: 1 }));
  const updated = async (mode, properties) => {
    await table.updateEntity(entity("update", properties), mode);
    return stored(table, "update");
  };
  for (const [name, mode, properties, expected] of [
    ["merge keeps other properties", "Merge", { b: 2, c: 2 }, { a: 1, b: 2, c: 2 }],
    ["merge leaves alone what is null", "Merge", { a: null }, { a: 1, b: 2, c: 2 }],
    ["merge may change a type", "Merge", { a: "one" }, { a: "one", b: 2, c: 2 }],
    ["replace drops other properties", "Replace", { d: 3 }, { d: 3 }],
  ]) {
    await report.check(`${name}`, entity("update", expected), () =>
      updated(mode, properties));
  }
  for (const mode of ["Merge", "Replace"]) {
    await report.check(`${mode} of what is not there is refused`, NOT_THERE, () =>
      table.updateEntity(entity("nothing"), mode));
  }
}

async function walkUpsert(table, report) {
  for (const [mode, second] of [["Merge", { a: 1, b: 2 }], ["Replace", { b: 2 }]]) {
    const row = `upsert ${mode}`;
    const upserted = async (properties) => {
      await table.upsertEntity(entity(row, properties), mode);
      return stored(table, row);
    };
    await report.check(`${row} inserts`, entity(row, { a: 1 }), () =>
      upserted({ a: 1 }));
    await report.check(`${row} updates`, entity(row, second), () => upserted({ b: 2 }));
  }
}

async function walkConditions(table, report) {
  const { etag: first } = await table.createEntity(entity("row", { n: 1 }));
  const { etag: second } = await table.updateEntity(entity("row", { n: 2 }));
  const update = (n, mode, etag) => table.updateEntity(entity("row", { n }), mode, { etag });

  await report.check("every write changes the ETag", true, () => first !== second);
  for (const mode of ["Merge", "Replace"]) {
    await report.check(`${mode} with a stale ETag is refused`, STALE, () =>
      update(3, mode, first));
  }
  await report.check("what was refused changed nothing", 2, async () =>
    (await stored(table, "row")).n);
  await report.check("replace with the ETag",
    new Matches("a new ETag", (etag) => ETAG.test(etag) && etag !== second),
    async () => (await update(4, "Replace", second)).etag);
  await report.check("delete with a stale ETag is refused", STALE, () =>
    table.deleteEntity("p", "row", { etag: second }));
  await report.check("delete with the ETag", NOT_THERE, async () => {
    const { etag } = await table.getEntity("p", "row");
    await table.deleteEntity("p", "row", { etag });
    return stored(table, "row");
  });
  await report.check("delete what is not there is refused", NOT_THERE, () =>
    table.deleteEntity("p", "row"));
  await report.check("a malformed ETag is refused", new Refused(400, "InvalidInput"),
    () => update(5, "Merge", "zzz"));
}

// Writes, finds by a filter, reads and deletes an entity whose keys are both this text.
async function thereAndBack(table, key) {
  await table.createEntity({ partitionKey: key, rowKey: key });
  const filter = odata`PartitionKey eq ${key} and RowKey eq ${key}`;
  const found = await table.listEntities({ queryOptions: { filter } }).next();
  const read = await table.getEntity(key, key);
  await table.deleteEntity(key, key);
  return [found.value?.rowKey, read.partitionKey];
}

module.exports = { walk };
