// Follows a collection while its server goes away and comes back; ../README.md says how.
//
//     mongosh --quiet --file follow.js mongodb://127.0.0.1:27017
const REOPEN = 20;

const things = db.getSiblingDB("followed").things;
let token = {};
let count = 0;
let isOver = false;
for (let opened = 0; !isOver; opened += 1) {
  try {
    const stream = things.watch([], { maxAwaitTimeMS: 500, ...token });
    let event = stream.tryNext();
    if (opened === 0) print("ready");
    while (true) {
      if (event) {
        count += 1;
        const name = ["resumeAfter", "startAfter"][Math.floor(count / REOPEN) % 2];
        token = { [name]: event._id };
        print(`event ${count} ${event.operationType} ${event.documentKey._id}`);
        isOver = event.documentKey._id === "end";
        if (isOver || count % REOPEN === 0) break;
      }
      event = stream.tryNext();
    }
    stream.close();
  } catch (error) {
    print(`met ${error}`.slice(0, 200));
    if (count === 0) throw error;
  }
}
