// Walks over every operation of the Table service with the JavaScript SDK.
//
//     node walk.js http://127.0.0.1:10002/devstoreaccount1
//     node walk.js https://127.0.0.1:10002/devstoreaccount1 --ca cert.pem
//
// Prints a line of JSON for every case; the exit code is 0 if all passed.
"use strict";

const { webcrypto } = require("node:crypto");
const { parseArgs } = require("node:util");

// The SDK looks for it here, and Node 18 does not put it here.
globalThis.crypto ??= webcrypto;

const { Account } = require("./account");
const { RefusalReport } = require("./checks");

const PARTS = {
  tables: require("./tables"),
  entities: require("./entities"),
  properties: require("./properties"),
  queries: require("./queries"),
  transactions: require("./transactions"),
  validation: require("./validation"),
  access: require("./access"),
  service: require("./service"),
};

async function main() {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      ca: { type: "string" },
      cosmos: { type: "boolean", default: false },
      token: { type: "string" },
    },
  });
  if (positionals.length !== 1) {
    console.error("usage: node walk.js ENDPOINT [--ca FILE] [--cosmos] [--token FILE]");
    return 2;
  }
  const account = new Account(positionals[0], values);
  const report = new RefusalReport();
  try {
    await report.parts(PARTS, ({ walk }) => walk(account, report));
    report.area = "answers";
    account.answers.check(report, values.cosmos);
    report.checkCodes();
  } finally {
    await account.cleanUp();
  }
  return report.finish() ? 0 : 1;
}

main().then((code) => {
  process.exitCode = code;
});
