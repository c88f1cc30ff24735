// A sharded collection.
"use strict";

const { Refused } = require("./checks");

async function walk(database, report) {
  const admin = database.client.db("admin");
  const namespace = `${database.databaseName}.sharded`;
  const c = database.collection("sharded");
  await report.check("shardCollection", namespace, async () =>
    (await admin.command({ shardCollection: namespace, key: { city: "hashed" } })).collectionsharded,
  );
  await report.check("many documents", 300, async () => {
    const documents = Array.from({ length: 300 }, (_, n) => ({ _id: n, city: `c${n % 30}`, n }));
    return (await c.insertMany(documents)).insertedCount;
  });
  await report.check("a document without the key", new Refused(61), () => c.insertOne({ _id: "x" }));
  await report.check("by the key", 10, () => c.countDocuments({ city: "c7" }));
  await report.check("across partitions, sorted", [299, 298, 297], async () =>
    (await c.find().sort({ n: -1 }).limit(3).toArray()).map(({ n }) => n),
  );
  await report.check("reshardCollection", [1, 300], async () => {
    const { ok } = await admin.command({ reshardCollection: namespace, key: { n: "hashed" } });
    return [ok, await c.countDocuments()];
  });
}

module.exports = { walk };
