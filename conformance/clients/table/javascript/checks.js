// How the service refuses, as the SDK tells it.
"use strict";

const { inspect } = require("node:util");

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
    return (
      actual instanceof Refused &&
      actual.status === this.status &&
      actual.index === this.index &&
      this.codes.some((code) => actual.codes.includes(code))
    );
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

module.exports = { Refused, outcome };
