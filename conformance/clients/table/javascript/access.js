// Access: keys, signatures for the account and for a table, stored policies, tokens.
"use strict";

const { AzureNamedKeyCredential } = require("@azure/data-tables");

const { NAME, inHours } = require("./account");
const { Matches } = require("../../report");
const { Refused, outcome } = require("./checks");

const UNAUTHENTICATED = new Refused(403, "AuthenticationFailed");
const NOT_PERMITTED = new Refused(403, "AuthorizationPermissionMismatch");
const FORBIDDEN = new Matches("403", (refused) => refused.status === 403);
const OUT_OF_REACH = new Matches("403 or 404", ({ status }) => status === 403 || status === 404);

const entity = (rowKey, partitionKey = "p") => ({ partitionKey, rowKey });

async function walk(account, report) {
  const { tableName: name } = await account.newTable([entity("r")]);
  const readAs = async (credential) =>
    (await account.tableAs(credential, name).getEntity("p", "r")).rowKey;
  const wrong = Buffer.from("not the key").toString("base64");

  await report.check("the key", "r", () => readAs(account.key));
  await report.check("a wrong key is refused", UNAUTHENTICATED, () =>
    readAs(new AzureNamedKeyCredential(NAME, wrong)));
  await walkAccountSignatures(account, report, readAs);
  await walkTableSignatures(account, report, name);
  await walkRanges(account, report);
  if (!account.cosmos) await walkPolicies(account, report, name, readAs);
  if (account.isHttps) await walkTokens(account, report);
}

async function walkAccountSignatures(account, report, readAs) {
  const grants = [
    ["everything", {}, "r"],
    ["reading", { permissions: { query: true } }, "r"],
    ["only writing", { permissions: { add: true } }, NOT_PERMITTED],
    ["no more", { expiresOn: inHours(-1) }, UNAUTHENTICATED],
    ["not yet", { startsOn: inHours(1), expiresOn: inHours(2) }, UNAUTHENTICATED],
    ["since an hour", { startsOn: inHours(-1) }, "r"],
    ["this address", { ipRange: { start: "127.0.0.1" } }, "r"],
    ["another address", { ipRange: { start: "10.0.0.1" } },
      new Refused(403, "AuthorizationSourceIPMismatch")],
    ["both protocols", { protocol: "https,http" }, "r"],
    ["HTTPS", { protocol: "https" },
      account.isHttps ? "r" : new Refused(403, "AuthorizationProtocolMismatch")],
    ["only the service", { resourceTypes: "s" },
      new Refused(403, "AuthorizationResourceTypeMismatch")],
    ["blobs", { services: { blob: true, table: false } },
      new Refused(403, "AuthorizationServiceMismatch")],
  ];
  for (const [name, grant, expected] of grants) {
    await report.check(`an account SAS for ${name}`, expected, () =>
      readAs(account.accountSas(grant)));
  }
}

async function walkTableSignatures(account, report, name) {
  const operations = [
    ["get", ["query"], (table) => table.getEntity("p", "r")],
    ["query", ["query"], (table) => table.listEntities().next()],
    ["insert", ["add"], (table) => table.createEntity(entity("new"))],
    ["update", ["update"], (table) => table.updateEntity(entity("r"))],
    ["upsert", ["add", "update"], (table) => table.upsertEntity(entity("r"))],
    ["delete", ["delete"], (table) => table.deleteEntity("p", "new")],
  ];
  for (const [operation, needed, run] of operations) {
    const lacking = ["query", "add", "update", "delete"].filter((each) => !needed.includes(each));
    for (const [granted, expected] of [[needed, "done"], [lacking, NOT_PERMITTED]]) {
      const permissions = Object.fromEntries(granted.map((each) => [each, true]));
      const table = account.tableAs(account.tableSas(name, { permissions }), name);
      await report.check(`${operation} with a table SAS for ${granted}`, expected,
        async () => {
          await run(table);
          return "done";
        });
    }
  }
  const other = await account.newTable();
  await report.check("a table SAS opens no other table", FORBIDDEN, () =>
    account.tableAs(account.tableSas(name), other.tableName).getEntity("p", "r"));
  await report.check("a table SAS covers transactions", 202, async () => {
    const table = account.tableAs(account.tableSas(name), name);
    return (await table.submitTransaction([["upsert", entity("t1")], ["upsert", entity("t2")]]))
      .status;
  });
}

async function walkRanges(account, report) {
  const pairs = ["a", "b", "c"].flatMap((partition) =>
    ["1", "2", "3"].map((row) => entity(row, partition)));
  const { tableName } = await account.newTable(pairs);
  const tableFor = (range) => account.tableAs(account.tableSas(tableName, range), tableName);
  const middle = {
    startPartitionKey: "a", startRowKey: "2", endPartitionKey: "b", endRowKey: "2",
  };
  for (const [name, range, expected] of [
    ["from b on", { startPartitionKey: "b" }, ["b1", "b2", "b3", "c1", "c2", "c3"]],
    ["up to a", { endPartitionKey: "a" }, ["a1", "a2", "a3"]],
    ["a2 to b2", middle, ["a2", "a3", "b1", "b2"]],
  ]) {
    await report.check(`a table SAS for ${name} shows no more`, expected, async () => {
      const seen = [];
      for await (const each of tableFor(range).listEntities()) {
        seen.push(each.partitionKey + each.rowKey);
      }
      return seen;
    });
  }
  await report.check("a table SAS for a range does not write outside", FORBIDDEN, () =>
    tableFor(middle).upsertEntity(entity("1", "a")));
  await report.check("a table SAS for a range does not read outside", OUT_OF_REACH,
    () => tableFor(middle).getEntity("c", "1"));
}

async function walkPolicies(account, report, name, readAs) {
  const table = account.tableAs(account.key, name);
  const credential = account.tableSas(name,
    { identifier: "reader", permissions: undefined, expiresOn: undefined });
  for (const [policy, accessPolicy, expected] of [
    ["that reads", { permission: "r", expiry: inHours(1) }, "r"],
    ["that only adds", { permission: "a", expiry: inHours(1) }, NOT_PERMITTED],
    ["that has ended", { permission: "r", expiry: inHours(-1) }, UNAUTHENTICATED],
    ["that is gone", undefined, UNAUTHENTICATED],
  ]) {
    await report.check(`a table SAS by a policy ${policy}`, expected, async () => {
      const started = { start: inHours(-2), ...accessPolicy };
      await table.setAccessPolicy(accessPolicy ? [{ id: "reader", accessPolicy: started }] : []);
      return readAs(credential);
    });
  }
}

async function walkTokens(account, report) {
  const bearer = (token) => ({
    getToken: async () => ({ token, expiresOnTimestamp: Date.now() + 3_600_000 }),
  });
  if (account.token) {
    const { tableName } = await account.newTable([entity("r")]);
    const table = account.tableAs(bearer(account.token), tableName);
    await report.check("a token of the issuer", "r", async () =>
      (await table.getEntity("p", "r")).rowKey);
  }
  const challenge = new Matches("401 and a Bearer challenge",
    ([status, header]) => status === 401 && header.startsWith("Bearer "));
  await report.check("a nonsense token is refused with a challenge", challenge,
    async () => {
      await outcome(() => account.serviceAs(bearer("nonsense")).listTables().next());
      return account.answers.lastWith("www-authenticate");
    });
}

module.exports = { walk };
