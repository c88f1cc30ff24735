// Sessions and transactions.
"use strict";

const { Refused } = require("./checks");

async function walk(database, report) {
  const { client } = database;
  const accounts = database.collection("accounts");
  await accounts.insertMany([{ _id: "a", n: 10 }, { _id: "b", n: 0 }]);
  const balance = async (_id) => (await accounts.findOne({ _id })).n;

  await report.check("withTransaction: both or none", [7, 3], async () => {
    await client.withSession((session) =>
      session.withTransaction(async () => {
        await accounts.updateOne({ _id: "a" }, { $inc: { n: -3 } }, { session });
        await accounts.updateOne({ _id: "b" }, { $inc: { n: 3 } }, { session });
      }),
    );
    return [await balance("a"), await balance("b")];
  });
  await report.check("an error aborts", [7, 3], async () => {
    const stopped = new Error("stop");
    await client
      .withSession((session) =>
        session.withTransaction(async () => {
          await accounts.updateOne({ _id: "a" }, { $inc: { n: -3 } }, { session });
          throw stopped;
        }),
      )
      .catch(() => {});
    return [await balance("a"), await balance("b")];
  });
  await report.check(
    "the second writer is told at once",
    new Refused(112, "TransientTransactionError"),
    () => conflict(client, accounts),
  );
  await report.check("ten at once all succeed in the end", 13, async () => {
    const increment = () =>
      client.withSession((session) =>
        session.withTransaction(() =>
          accounts.updateOne({ _id: "b" }, { $inc: { n: 1 } }, { session }),
        ),
      );
    await Promise.all(Array.from({ length: 10 }, increment));
    return balance("b");
  });
}

async function conflict(client, accounts) {
  const [first, second] = [client.startSession(), client.startSession()];
  try {
    first.startTransaction();
    second.startTransaction();
    await accounts.updateOne({ _id: "a" }, { $set: { by: 1 } }, { session: first });
    await accounts.updateOne({ _id: "a" }, { $set: { by: 2 } }, { session: second });
  } finally {
    await first.commitTransaction();
    await Promise.all([first.endSession(), second.endSession()]);
  }
}

module.exports = { walk };
