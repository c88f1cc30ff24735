// Follows a collection while its server goes away and comes back; README.md says how.
//
//     node follow.js mongodb://127.0.0.1:27017
"use strict";

const { MongoClient } = require("mongodb");

// Every so many events the stream is opened anew.
const REOPEN = 20;

async function main() {
  const client = new MongoClient(process.argv[2], { serverSelectionTimeoutMS: 20000 });
  const things = client.db("followed").collection("things");
  let token = {};
  let count = 0;
  let isOver = false;
  for (let opened = 0; !isOver; opened += 1) {
    const stream = things.watch([], { maxAwaitTimeMS: 500, ...token });
    try {
      // The driver opens a stream with its first question.
      let event = await stream.tryNext();
      if (opened === 0) console.log("ready");
      do {
        if (event) {
          count += 1;
          const name = ["resumeAfter", "startAfter"][Math.floor(count / REOPEN) % 2];
          token = { [name]: event._id };
          console.log("event", count, event.operationType, event.documentKey._id);
          isOver = event.documentKey._id === "end";
          if (isOver || count % REOPEN === 0) break;
        }
        event = await stream.tryNext();
      } while (true);
    } catch (error) {
      console.log(`met ${error}`.slice(0, 200));
      if (count === 0) throw error;
    } finally {
      await stream.close().catch(() => {});
    }
  }
  await client.close();
}

main();
