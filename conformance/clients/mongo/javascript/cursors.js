// Answers in several batches, orders and plans.
"use strict";

const { Refused } = require("./checks");

async function walk(database, report) {
  const c = database.collection("cursors");
  const numbers = Array.from({ length: 250 }, (_, n) => n);
  await c.insertMany(numbers.map((n) => ({ _id: n, n: n % 10 })));
  const ids = async (cursor) => (await cursor.toArray()).map(({ _id }) => _id);
  await report.check("all batches, in order", numbers, () => ids(c.find().batchSize(7)));
  await report.check("sort, skip and limit", [239, 229], () =>
    ids(c.find({ n: 9 }).sort({ _id: -1 }).skip(1).limit(2)),
  );
  await report.check("a cursor as an iterator", 250, async () => {
    let seen = 0;
    for await (const document of c.find({}, { batchSize: 100 })) seen += document ? 1 : 0;
    return seen;
  });
  await report.check("projection", { n: 3 }, () =>
    c.findOne({ _id: 3 }, { projection: { _id: 0, n: 1 } }),
  );
  await report.check("distinct", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], () => c.distinct("n"));
  await report.check("estimatedDocumentCount", 250, () => c.estimatedDocumentCount());
  await report.check("createIndex", "n_1", () => c.createIndex({ n: 1 }));
  await report.check("explain: the index examines what it returns", [25, 25], async () => {
    const { executionStats } = await c.find({ n: 4 }).explain("executionStats");
    return [executionStats.totalDocsExamined, executionStats.nReturned];
  });
  await report.check("a hint of an index that is not there", new Refused(2), () =>
    c.find().hint("nonsense").toArray(),
  );
  await report.check("a filter that cannot be", new Refused(2), () =>
    c.find({ n: { $nonsense: 1 } }).toArray(),
  );
}

module.exports = { walk };
