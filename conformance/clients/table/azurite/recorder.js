// A reporter of mocha that writes what came of each case as one line of JSON.
"use strict";

const fs = require("node:fs");

module.exports = class Recorder {
  constructor(runner) {
    const write = (test, outcome, error) => {
      const line = {
        case: `${process.env.TESSERA_FILE}::${test.fullTitle()}`, outcome,
        message: String(error?.message ?? "").slice(0, 600),
      };
      fs.appendFileSync(process.env.TESSERA_RECORD, `${JSON.stringify(line)}\n`);
    };
    runner.on("pass", (test) => write(test, "passed"));
    runner.on("fail", (test, error) => write(test, "failed", error));
    runner.on("pending", (test) => write(test, "skipped"));
  }
};
