// The service itself: its properties and its statistics; and the access policies of a table.
"use strict";

const { Refused } = require("./checks");

const WEEK = { enabled: true, days: 7 };
const NO_RETENTION = { enabled: false };

async function walk(account, report) {
  const { service } = account;
  if (account.cosmos) {
    await walkCosmos(account, report);
    return;
  }
  const before = await readProperties(service);
  await report.check("the properties have all parts",
    ["cors", "hourMetrics", "logging", "minuteMetrics"], () => Object.keys(before).sort());
  try {
    await walkProperties(service, report);
  } finally {
    await service.setProperties(before);
  }
  await walkPolicies(await account.newTable(), report);
  await report.check("statistics of the secondary", "live", async () => {
    const secondary = account.serviceAs(account.key, `${account.endpoint}-secondary`);
    return (await secondary.getStatistics()).geoReplication.status;
  });
}

async function walkCosmos(account, report) {
  const { service } = account;
  const table = await account.newTable();
  const secondary = account.serviceAs(account.key, `${account.endpoint}-secondary`);
  for (const [name, action] of [
    ["properties", () => service.getProperties()],
    ["setting properties", () => service.setProperties({ cors: [] })],
    ["statistics", () => secondary.getStatistics()],
    ["access policies", () => table.getAccessPolicy()],
    ["setting access policies", () => table.setAccessPolicy([])],
  ]) {
    const refused = new Refused(501, "NotImplemented");
    await report.check(`Cosmos knows no ${name}`, refused, action);
  }
}

async function readProperties(service) {
  const { logging, hourMetrics, minuteMetrics, cors } = await service.getProperties();
  return { logging, hourMetrics, minuteMetrics, cors: cors ?? [] };
}

async function walkProperties(service, report) {
  const all = {
    logging: { version: "1.0", read: true, write: false, delete: true, retentionPolicy: WEEK },
    hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: WEEK },
    minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: NO_RETENTION },
    cors: [{
      allowedOrigins: "https://a.example,https://b.example", allowedMethods: "GET,PUT",
      allowedHeaders: "x-ms-meta-*", exposedHeaders: "x-ms-*", maxAgeInSeconds: 60,
    }],
  };
  const metrics = { hourMetrics: { ...all.hourMetrics, enabled: false, includeAPIs: undefined } };
  const rules = { cors: [{ ...all.cors[0], allowedOrigins: "*" }] };
  for (const [name, properties, expected] of [
    ["set all properties", all, all],
    ["set CORS only", rules, { ...all, ...rules }],
    ["set metrics only", metrics, { ...all, ...rules, ...metrics }],
  ]) {
    await report.check(name, plain(expected), async () => {
      await service.setProperties(properties);
      return plain(await readProperties(service));
    });
  }
}

// Without what is undefined.
function plain(value) {
  return JSON.parse(JSON.stringify(value));
}

async function walkPolicies(table, report) {
  const after = async (policies) => {
    await table.setAccessPolicy(policies);
    return (await table.getAccessPolicy()).map(({ id, accessPolicy }) => ({ id, accessPolicy }));
  };
  const [start, expiry] = [new Date("2024-01-01T00:00:00Z"), new Date("2034-01-01T00:00:00Z")];
  const policies = [
    { id: "all", accessPolicy: { permission: "raud", start, expiry } },
    { id: "reading", accessPolicy: { permission: "r", start, expiry } },
  ];
  await report.check("set access policies", policies, () => after(policies));
  await report.check("remove access policies", [], () => after([]));
  await report.check("a sixth access policy is refused",
    new Refused(400, "InvalidXmlDocument"),
    () => after(Array.from({ length: 6 }, (_, id) => ({ ...policies[0], id: String(id) }))));
}

module.exports = { walk };
