// How the service refuses, as the SDK tells it.
"use strict";

const { inspect } = require("node:util");

const { Report } = require("../../report");

// A refusal of the service. Several codes mean: any one of them is right.
class Refused {
  constructor(status, ...codes) {
    this.status = status;
    this.codes = codes;
  }

  // A refusal of one operation of a transaction.
  at(index) {
    this.index = index;
    return this;
  }

  // What the SDK threw. It leaves the index of an operation where the service put it: before the
  // message.
  static of(error) {
    const body = error.details?.odataError;
    const code = error.code ?? body?.code ?? error.response?.headers.get("x-ms-error-code");
    const index = /^(\d+):/.exec(body?.message?.value ?? error.message)?.[1];
    const refused = new Refused(error.statusCode, code);
    return index === undefined ? refused : refused.at(Number(index));
  }

  matches(actual) {
    return this.isLike(actual) && this.hasCodeOf(actual);
  }

  // Whether that refuses the same, with whatever code.
  isLike(actual) {
    return (
      actual instanceof Refused && actual.status === this.status && actual.index === this.index
    );
  }

  hasCodeOf(actual) {
    return this.codes.some((code) => actual.codes.includes(code));
  }

  [inspect.custom]() {
    const at = this.index === undefined ? "" : ` at operation ${this.index}`;
    return `${this.status} ${this.codes.join(" or ")}${at}`;
  }
}

// What an action returns, or the refusal that it meets, or the error that stopped it.
async function outcome(action) {
  try {
    return await action();
  } catch (error) {
    return error.statusCode === undefined ? error : Refused.of(error);
  }
}

// Whether something is refused is one case each; that all refusals have the service's codes is one
// more, at the end: a server with codes of its own differs in one thing.
class RefusalReport extends Report {
  #otherCodes = [];

  constructor() {
    super(outcome);
  }

  verdict(name, expected, actual) {
    if (!(expected instanceof Refused && expected.isLike(actual))) {
      super.verdict(name, expected, actual);
      return;
    }
    if (!expected.hasCodeOf(actual)) {
      this.#otherCodes.push(`${this.area}: ${name}: ${inspect(expected)}, got ${inspect(actual)}`);
    }
    super.verdict(name, expected, expected);
  }

  checkCodes() {
    this.verdict("every refusal has its code", [], this.#otherCodes);
  }
}

module.exports = { RefusalReport, Refused, outcome };
