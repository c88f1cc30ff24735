// Cases and their verdicts: one line for each, and a count at the end.
"use strict";

const { inspect, isDeepStrictEqual } = require("node:util");

// An error of the server: its code, and words that its message contains.
class Refused {
  constructor(code, words = "") {
    this.code = code;
    this.words = words;
  }

  matches(actual) {
    return actual?.code === this.code && actual.message.includes(this.words);
  }

  [inspect.custom]() {
    return `error 0x${this.code.toString(16)} ${this.words}`.trim();
  }
}

// Runs cases, prints their verdicts and counts them.
class Report {
  passed = 0;
  failed = 0;

  // Does `action` and compares what it returns, or how it is refused, with `expected`.
  async check(name, expected, action) {
    const actual = await outcome(action);
    const equal =
      expected instanceof Refused ? expected.matches(actual) : isDeepStrictEqual(expected, actual);
    this.passed += equal ? 1 : 0;
    this.failed += equal ? 0 : 1;
    console.log(
      equal ? `ok ${name}` : `FAILED ${name}: expected ${shown(expected)}, got ${shown(actual)}`,
    );
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

module.exports = { Refused, Report };
