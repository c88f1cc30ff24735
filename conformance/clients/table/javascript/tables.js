// Tables: create, list, delete, and what is said of those that are not there.
"use strict";

const { Refused } = require("./checks");

const NOT_THERE = new Refused(404, "TableNotFound", "ResourceNotFound");
const INVALID_NAMES = [
  ["ab", "OutOfRangeInput", "InvalidResourceName"],
  ["a".repeat(64), "OutOfRangeInput", "InvalidResourceName"],
  ["1abc", "InvalidResourceName"],
  ["a-b-c", "InvalidResourceName"],
  ["tables", "InvalidInput", "InvalidResourceName"],
];

const INVALID_IN_COSMOS = ["a".repeat(255), "a/b", "a#b", "a "].map((name) => [
  name, "InvalidResourceName",
]);

async function walk(account, report) {
  const { service, answers } = account;
  const name = account.newName();

  const created = async (asked) => {
    await service.createTable(asked);
    return answers.lastWith("x-ms-error-code");
  };
  await report.check("create", [201, undefined], () => created(name));
  // The SDK takes a table that exists for a success.
  await report.check("create again is refused", [409, "TableAlreadyExists"], () =>
    created(name),
  );
  if (account.cosmos) {
    await report.check("another case names another table", [201, undefined], () =>
      created(name.toUpperCase()),
    );
    await service.deleteTable(name.toUpperCase());
  } else {
    await report.check("create again in another case", [409, "TableAlreadyExists"], () =>
      created(name.toUpperCase()),
    );
  }
  await report.check("list", true, async () =>
    (await namesOf(service.listTables())).includes(name),
  );

  const deleted = async () => {
    await service.deleteTable(name);
    return answers.lastWith("x-ms-error-code");
  };
  await report.check("delete", [204, undefined], deleted);
  await report.check("delete again", [404, "ResourceNotFound"], deleted);
  await report.check("a deleted table is not listed", false, async () =>
    (await namesOf(service.listTables())).includes(name),
  );
  const invalidNames = account.cosmos ? INVALID_IN_COSMOS : INVALID_NAMES;
  for (const [invalid, ...codes] of invalidNames) {
    const expected = new Refused(400, ...codes);
    await report.check(`the name ${invalid.slice(0, 10)} is refused`, expected, () =>
      service.createTable(invalid),
    );
  }
  await walkList(account, report);
  await walkMissing(account, report);
}

async function walkList(account, report) {
  const made = [];
  for (let count = 0; count < 5; count += 1) made.push((await account.newTable()).tableName);
  made.sort();
  const listed = (filter) => account.service.listTables({ queryOptions: { filter } });
  const mine = `TableName ge '${made[0]}' and TableName le '${made[4]}'`;

  await report.check("filter by name", [made[2]], () =>
    namesOf(listed(`TableName eq '${made[2]}'`)),
  );
  await report.check("filter by range, in order", made, () => namesOf(listed(mine)));
  await report.check(
    "pages",
    [made.slice(0, 2), made.slice(2, 4), made.slice(4)],
    async () => {
      const pages = [];
      for await (const page of listed(mine).byPage({ maxPageSize: 2 })) {
        if (page.length > 0) pages.push(page.map((table) => table.name));
      }
      return pages;
    },
  );
  await report.check("go on from a continuation", made.slice(2, 4), async () => {
    const first = await listed(mine).byPage({ maxPageSize: 2 }).next();
    const { continuationToken } = first.value;
    const second = await listed(mine).byPage({ maxPageSize: 2, continuationToken }).next();
    return second.value.map((table) => table.name);
  });
  await report.check("a bad filter is refused", new Refused(400, "InvalidInput"), () =>
    namesOf(listed("TableName is fine")),
  );
}

async function walkMissing(account, report) {
  const table = account.tableAs(account.key, account.newName());
  const entity = { partitionKey: "p", rowKey: "r" };
  const operations = {
    insert: () => table.createEntity(entity),
    get: () => table.getEntity("p", "r"),
    query: () => table.listEntities().next(),
    update: () => table.updateEntity(entity),
    upsert: () => table.upsertEntity(entity),
    delete: () => table.deleteEntity("p", "r"),
    "access policies": () => table.getAccessPolicy(),
  };
  if (account.cosmos) delete operations["access policies"];
  for (const [name, operation] of Object.entries(operations)) {
    await report.check(`${name} in a missing table is refused`, NOT_THERE, operation);
  }
}

async function namesOf(tables) {
  const names = [];
  for await (const table of tables) names.push(table.name);
  return names;
}

module.exports = { walk };
