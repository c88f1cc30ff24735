// Aggregation.
"use strict";

const { Refused } = require("./checks");

async function walk(database, report) {
  const orders = database.collection("orders");
  await orders.insertMany([
    { _id: 1, who: "ann", total: 5, items: ["x", "y"] },
    { _id: 2, who: "bob", total: 7, items: ["y"] },
    { _id: 3, who: "ann", total: 9, items: [] },
  ]);
  await database.collection("people").insertOne({ _id: "ann", city: "Bern" });
  const answer = (pipeline) => orders.aggregate(pipeline).toArray();
  await report.check(
    "$group and $sort",
    [{ _id: "ann", sum: 14 }, { _id: "bob", sum: 7 }],
    () => answer([{ $group: { _id: "$who", sum: { $sum: "$total" } } }, { $sort: { _id: 1 } }]),
  );
  await report.check("$unwind and $sortByCount", [{ _id: "y", count: 2 }], () =>
    answer([{ $unwind: "$items" }, { $sortByCount: "$items" }, { $limit: 1 }]),
  );
  await report.check("$lookup", [{ _id: 1, city: ["Bern"] }], () =>
    answer([
      { $match: { _id: 1 } },
      { $lookup: { from: "people", localField: "who", foreignField: "_id", as: "found" } },
      { $project: { city: "$found.city" } },
    ]),
  );
  await report.check("$merge", 3, async () => {
    await answer([{ $merge: { into: "copies" } }]);
    return database.collection("copies").countDocuments();
  });
  await report.check("a stage that does not exist", new Refused(40324), () =>
    answer([{ $nonsense: {} }]),
  );
}

module.exports = { walk };
