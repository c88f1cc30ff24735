// Inserting, reading, changing and deleting documents.
"use strict";

const { Binary, Decimal128, Long, MaxKey, MinKey, ObjectId, Timestamp, UUID } = require("mongodb");

const { Refused } = require("./checks");

const EVERY_TYPE = {
  _id: "all",
  double: 1.5,
  text: "Grüße",
  document: { a: { b: 1 } },
  list: [1, "2", [3]],
  binary: new Binary(Buffer.from([0, 255])),
  uuid: new UUID("00000000-0000-4000-8000-000000000007"),
  id: new ObjectId("0123456789abcdef01234567"),
  true: true,
  date: new Date(1_700_000_000_123),
  null: null,
  pattern: /^a/i,
  long: Long.fromString("9007199254740993"),
  decimal: Decimal128.fromString("1.10"),
  timestamp: new Timestamp({ t: 4, i: 2 }),
  least: new MinKey(),
  most: new MaxKey(),
};

async function walk(database, report) {
  const c = database.collection("documents");
  await report.check("insertOne: the id that was given", 1, async () =>
    (await c.insertOne({ _id: 1, n: 1 })).insertedId,
  );
  await report.check("insertOne: the same id again", new Refused(11000), () =>
    c.insertOne({ _id: 1 }),
  );
  await report.check("every type comes back as it was", EVERY_TYPE, async () => {
    await c.insertOne(EVERY_TYPE);
    return c.findOne({ _id: "all" }, { promoteLongs: false, promoteValues: true });
  });
  await report.check("insertMany in no order goes on after an error", 3, async () => {
    const many = database.collection("many");
    await many.insertOne({ _id: 1 });
    const documents = [{ _id: 1 }, { _id: 2 }, { _id: 3 }];
    await many.insertMany(documents, { ordered: false }).catch(() => {});
    return many.countDocuments();
  });
  await walkChanges(c, report);
}

async function walkChanges(c, report) {
  const counts = ({ matchedCount, modifiedCount, upsertedId }) => [
    matchedCount, modifiedCount, upsertedId,
  ];
  await report.check("updateOne", [1, 1, null], async () =>
    counts(await c.updateOne({ _id: 1 }, { $inc: { n: 1 }, $push: { list: { $each: [1, 2] } } })),
  );
  await report.check("updateOne: what it made", { _id: 1, n: 2, list: [1, 2] }, () =>
    c.findOne({ _id: 1 }),
  );
  await report.check("updateOne with a pipeline", 4, async () => {
    await c.updateOne({ _id: 1 }, [{ $set: { n: { $multiply: ["$n", 2] } } }]);
    return (await c.findOne({ _id: 1 })).n;
  });
  await report.check("updateOne that inserts", [0, 0, 9], async () =>
    counts(await c.updateOne({ _id: 9 }, { $set: { n: 9 } }, { upsert: true })),
  );
  await report.check("updateMany with array filters", [5, 2], async () => {
    await c.updateMany({ _id: 1 }, { $set: { "list.$[x]": 5 } }, { arrayFilters: [{ x: 1 }] });
    return (await c.findOne({ _id: 1 })).list;
  });
  await report.check("replaceOne", { _id: 9, only: true }, async () => {
    await c.replaceOne({ _id: 9 }, { only: true });
    return c.findOne({ _id: 9 });
  });
  await report.check("findOneAndUpdate: after", 5, async () => {
    const options = { returnDocument: "after" };
    return (await c.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }, options)).n;
  });
  await report.check("findOneAndDelete: what it was", { _id: 9, only: true }, () =>
    c.findOneAndDelete({ _id: 9 }),
  );
  await report.check("bulkWrite", [1, 1, 1], async () => {
    const result = await c.bulkWrite([
      { insertOne: { document: { _id: 20 } } },
      { updateOne: { filter: { _id: 20 }, update: { $set: { x: 1 } } } },
      { deleteOne: { filter: { _id: 20 } } },
    ]);
    return [result.insertedCount, result.modifiedCount, result.deletedCount];
  });
  await report.check("deleteMany", 2, async () => (await c.deleteMany({})).deletedCount);
  await report.check("an operator that does not exist", new Refused(9), () =>
    c.updateOne({}, { $nonsense: { a: 1 } }),
  );
}

module.exports = { walk };
