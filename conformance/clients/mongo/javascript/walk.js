// Walks over the MongoDB front end with the Node driver.
//
//     node walk.js mongodb://127.0.0.1:27017
//     node walk.js mongodb://root:secret@127.0.0.1:27017 --ca cert.pem --compressors snappy
//
// Prints a line of JSON for every case; the exit code is 0 if all passed.
"use strict";

const { randomBytes } = require("node:crypto");
const { parseArgs } = require("node:util");

const { MongoClient } = require("mongodb");

const { Report } = require("../../report");

const PARTS = {
  documents: require("./documents"),
  cursors: require("./cursors"),
  pipelines: require("./pipelines"),
  transactions: require("./transactions"),
  sharding: require("./sharding"),
};

async function main() {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { ca: { type: "string" }, compressors: { type: "string" } },
  });
  if (positionals.length !== 1) {
    console.error("usage: node walk.js ENDPOINT [--ca FILE] [--compressors NAMES]");
    return 2;
  }
  const client = new MongoClient(positionals[0], {
    serverSelectionTimeoutMS: 5000,
    ...(values.ca && { tls: true, tlsCAFile: values.ca }),
    ...(values.compressors && { compressors: values.compressors.split(",") }),
  });
  const database = client.db(`walk_${randomBytes(6).toString("hex")}`);
  const report = new Report();
  try {
    await report.parts(PARTS, ({ walk }) => walk(database, report));
  } finally {
    await database.dropDatabase();
    await client.close();
  }
  return report.finish() ? 0 : 1;
}

main().then((code) => {
  process.exitCode = code;
});
