// What the walks with Node share: cases and their verdicts, one line for each, and a count at the
// end.
"use strict";

const { inspect, isDeepStrictEqual } = require("node:util");

// Runs cases, prints their verdicts and counts them.
class Report {
  passed = 0;
  failed = 0;

  // Does `action` and compares what it returns, or how it is refused, with `expected`.
  async check(name, expected, action) {
    this.verdict(name, expected, await outcome(action));
  }

  // An expectation that can judge by itself has a method `matches`.
  verdict(name, expected, actual) {
    const { matches = isDeepStrictEqual.bind(undefined, expected) } = expected ?? {};
    if (matches.call(expected, actual)) {
      this.passed += 1;
      console.log(`ok ${name}`);
    } else {
      this.failed += 1;
      console.log(`FAILED ${name}: expected ${shown(expected)}, got ${shown(actual)}`);
    }
  }

  // Prints the count; true if nothing failed.
  finish() {
    console.log(`${this.passed} passed, ${this.failed} failed`);
    return this.failed === 0 && this.passed > 0;
  }
}

// What an action returns, or the error that stopped it.
async function outcome(action) {
  try {
    return await action();
  } catch (error) {
    return error;
  }
}

function shown(value) {
  const options = { breakLength: Infinity, compact: true, depth: 5, maxStringLength: 300 };
  return inspect(value, options).slice(0, 1000);
}

module.exports = { Report };
