// What the walks with Node share: cases and their verdicts, a line of JSON for each.
//
// The runner, `tessera-conformance run`, reads these lines; README.md says what is in them.
"use strict";

const { inspect, isDeepStrictEqual } = require("node:util");

// Stands for every value for which the test holds; a value that cannot be tested is another.
class Matches {
  constructor(description, test) {
    this.description = description;
    this.test = test;
  }

  matches(actual) {
    try {
      return Boolean(this.test(actual));
    } catch {
      return false;
    }
  }

  [inspect.custom]() {
    return this.description;
  }
}

// Does cases and prints what came of them. `outcome` does an action, and answers what it returns or
// how the server refuses it.
class Report {
  passed = 0;
  failed = 0;
  #since = performance.now();

  constructor(outcome = returnedOrThrown, area = "walk") {
    this.outcome = outcome;
    this.area = area;
  }

  // Walks over every part; its name is the area of its cases.
  async parts(parts, walk) {
    for (const [area, part] of Object.entries(parts)) {
      this.area = area;
      await this.check("the part runs to its end", undefined, () => walk(part));
    }
  }

  // Does `action` and compares what it returns, or how it is refused, with `expected`.
  async check(name, expected, action) {
    this.verdict(name, expected, await this.outcome(action));
  }

  // Compares what was found with what should be. An expectation that can judge by itself has a
  // method `matches`.
  verdict(name, expected, actual) {
    const { matches = isDeepStrictEqual.bind(undefined, expected) } = expected ?? {};
    const message = () => `expected ${shown(expected)}, got ${shown(actual)}`;
    this.case(name, matches.call(expected, actual), message);
  }

  // Prints a case; `message` makes the words for one that fails. Its time began with the end of the
  // case before it.
  case(name, holds, message) {
    this[holds ? "passed" : "failed"] += 1;
    const now = performance.now();
    const line = {
      area: this.area,
      case: name,
      outcome: holds ? "passed" : "failed",
      ms: Number((now - this.#since).toFixed(3)),
      message: holds ? "" : message(),
    };
    this.#since = now;
    console.log(JSON.stringify(line));
  }

  // True if nothing failed.
  finish() {
    return this.failed === 0 && this.passed > 0;
  }
}

// What an action returns, or the error that stopped it.
async function returnedOrThrown(action) {
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

module.exports = { Matches, Report };
