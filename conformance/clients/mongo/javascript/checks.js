// How the server refuses, as the driver tells it.
"use strict";

const { inspect } = require("node:util");

// An error of the server: its code and, where a case names them, its labels.
class Refused {
  constructor(code, ...labels) {
    this.code = code;
    this.labels = labels;
  }

  matches(actual) {
    return (
      actual?.code === this.code && this.labels.every((label) => actual.hasErrorLabel(label))
    );
  }

  [inspect.custom]() {
    return `error ${this.code} ${this.labels.join(" ")}`.trim();
  }
}

module.exports = { Refused };
