// Entity group transactions: all or nothing, and which operation it was.
"use strict";

const { Matches } = require("../../report");
const { Refused } = require("./checks");

const entity = (rowKey, properties) => ({ partitionKey: "p", rowKey, ...properties });

async function walk(account, report) {
  const table = await account.newTable();
  await walkSuccess(table, report);
  await walkFailures(table, report);
  await walkLimits(await account.newTable(), report);
}

async function walkSuccess(table, report) {
  for (const row of ["merged", "replaced", "deleted", "kept"]) {
    await table.createEntity(entity(row, { a: 1 }));
  }
  const { etag } = await table.getEntity("p", "kept");
  const actions = [
    ["create", entity("created", { b: 2 })],
    ["update", entity("merged", { b: 2 }), "Merge"],
    ["update", entity("replaced", { b: 2 }), "Replace"],
    ["upsert", entity("upserted", { b: 2 }), "Merge"],
    ["upsert", entity("put", { b: 2 }), "Replace"],
    ["delete", entity("deleted")],
    ["update", entity("kept", { b: 2 }), "Merge", { etag }],
  ];
  let answered;
  await report.check("every operation at once", Array(7).fill(204), async () => {
    answered = await table.submitTransaction(actions);
    return answered.subResponses.map((response) => response.status);
  });
  await report.check("an ETag for all but the delete",
    [true, true, true, true, true, false, true],
    () => answered.subResponses.map((response) => response.etag !== undefined));
  await report.check("the answer for an entity that was made",
    new Matches("its status", (response) => response.status === 204),
    () => answered.getResponseForEntity("created"));
  await report.check("what they left behind", {
    created: [undefined, 2], kept: [1, 2], merged: [1, 2], put: [undefined, 2],
    replaced: [undefined, 2], upserted: [undefined, 2],
  }, async () => {
    const left = {};
    for await (const { rowKey, a, b } of table.listEntities()) left[rowKey] = [a, b];
    return left;
  });
}

async function walkFailures(table, report) {
  const { etag } = await table.getEntity("p", "kept");
  await table.updateEntity(entity("kept", { b: 3 }));
  const fresh = ["create", entity("new")];
  for (const [name, actions, expected] of [
    ["an entity that exists", [fresh, ["create", entity("kept")]],
      new Refused(409, "EntityAlreadyExists").at(1)],
    ["the first of two", [["create", entity("kept")], fresh],
      new Refused(409, "EntityAlreadyExists").at(0)],
    ["an update of nothing", [fresh, ["upsert", entity("2")], ["update", entity("nothing")]],
      new Refused(404, "ResourceNotFound").at(2)],
    ["a delete of nothing", [fresh, ["delete", entity("nothing")]],
      new Refused(404, "ResourceNotFound").at(1)],
    ["a stale ETag", [fresh, ["update", entity("kept"), "Merge", { etag }]],
      new Refused(412, "UpdateConditionNotSatisfied").at(1)],
    ["a key that is not allowed", [fresh, ["create", entity("a/b")]],
      new Refused(400, "InvalidInput", "OutOfRangeInput").at(1)],
  ]) {
    await report.check(`${name} is refused`, expected, () =>
      table.submitTransaction(actions));
    await report.check(`${name} undoes all`,
      new Refused(404, "ResourceNotFound"), () => table.getEntity("p", "new"));
  }
}

async function walkLimits(table, report) {
  const many = (count) =>
    Array.from({ length: count }, (_, index) => ["upsert", entity(String(index))]);
  await report.check("100 operations", 100, async () =>
    (await table.submitTransaction(many(100))).subResponses.length);
  await report.check("101 operations are refused",
    new Matches("400 InvalidInput",
      ({ status, codes }) => status === 400 && codes.includes("InvalidInput")),
    () => table.submitTransaction(many(101)));

  const large = Object.fromEntries(
    Array.from({ length: 15 }, (_, index) => [`text${index}`, "x".repeat(30000)]));
  await report.check("more than 4 MiB are refused",
    new Matches("413", ({ status }) => status === 413),
    () => table.submitTransaction(
      Array.from({ length: 10 }, (_, index) => ["upsert", entity(String(index), large)])));
}

module.exports = { walk };
