// How the server refuses, as the driver tells it.
"use strict";

const { inspect } = require("node:util");

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

module.exports = { Refused };
