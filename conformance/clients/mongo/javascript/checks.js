// How the server refuses, and the report of cases.
"use strict";

const { inspect } = require("node:util");

const { Report } = require("../../report");

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

module.exports = { Refused, Report };
