// Walks over the Cassandra front end with the Node driver.
//
//     node walk.js 127.0.0.1:9042
//     node walk.js 127.0.0.1:9042 --user ada --password secret --ca cert.pem
//
// Prints a line of JSON for every case; the exit code is 0 if all passed.
"use strict";

const { randomBytes } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { parseArgs } = require("node:util");

const { Client, auth } = require("cassandra-driver");

const { Report } = require("../../report");

const PARTS = {
  keys: require("./keys"),
  values: require("./values"),
  statements: require("./statements"),
  paging: require("./paging"),
};

async function main() {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      ca: { type: "string" },
      user: { type: "string" },
      password: { type: "string" },
    },
  });
  if (positionals.length !== 1) {
    console.error("usage: node walk.js HOST:PORT [--user NAME --password WORD] [--ca FILE]");
    return 2;
  }
  const client = new Client({
    contactPoints: [positionals[0]],
    localDataCenter: "datacenter1",
    ...(values.user && {
      authProvider: new auth.PlainTextAuthProvider(values.user, values.password),
    }),
    ...(values.ca && { sslOptions: { ca: [readFileSync(values.ca)], rejectUnauthorized: true } }),
  });
  const keyspace = `walk_${randomBytes(6).toString("hex")}`;
  const report = new Report();
  try {
    await client.connect();
    await client.execute(
      `CREATE KEYSPACE ${keyspace} WITH replication = ` +
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
    );
    await client.execute(`USE ${keyspace}`);
    await report.parts(PARTS, ({ walk }) => walk(client, report, keyspace));
  } finally {
    await client.execute(`DROP KEYSPACE IF EXISTS ${keyspace}`);
    await client.shutdown();
  }
  return report.finish() ? 0 : 1;
}

main().then((code) => {
  process.exitCode = code;
});
