// The account that the walk talks to: clients with any credential, and everything they answered.
"use strict";

const { randomBytes } = require("node:crypto");
const { readFileSync } = require("node:fs");
const {
  AzureNamedKeyCredential,
  AzureSASCredential,
  TableClient,
  TableServiceClient,
  generateAccountSas,
  generateTableSas,
} = require("@azure/data-tables");

// The account of every storage emulator; its key is public.
const NAME = "devstoreaccount1";
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const HOUR = 3_600_000;

// One endpoint. Tables made here have names that no other walk uses, and are removed by `cleanUp`.
class Account {
  answers = new Answers();
  key = new AzureNamedKeyCredential(NAME, KEY);
  prefix = `walk${randomBytes(5).toString("hex")}`;
  #number = 0;

  constructor(endpoint, { ca, cosmos, token }) {
    this.cosmos = cosmos;
    this.token = token && readFileSync(token, "ascii");
    this.endpoint = endpoint.replace(/\/$/, "");
    this.isHttps = endpoint.startsWith("https:");
    this.options = {
      allowInsecureConnection: !this.isHttps,
      retryOptions: { maxRetries: 0 },
      additionalPolicies: [{ policy: this.answers.policy(), position: "perRetry" }],
      ...(ca && { tlsOptions: { ca: readFileSync(ca) } }),
    };
    this.service = this.serviceAs(this.key);
  }

  serviceAs(credential, endpoint = this.endpoint) {
    return new TableServiceClient(endpoint, credential, this.options);
  }

  tableAs(credential, name) {
    return new TableClient(this.endpoint, name, credential, this.options);
  }

  newName() {
    this.#number += 1;
    return `${this.prefix}n${this.#number}`;
  }

  // A client of a table that exists and holds these entities.
  async newTable(entities = []) {
    const table = this.tableAs(this.key, this.newName());
    await table.createTable();
    for (const entity of entities) await table.createEntity(entity);
    return table;
  }

  // A credential with a signature for the account; the options replace a full grant.
  accountSas(options = {}) {
    const permissions = {
      query: true, write: true, delete: true, list: true, add: true, create: true, update: true,
    };
    const grant = { permissions, resourceTypes: "sco", expiresOn: inHours(1), ...options };
    return new AzureSASCredential(generateAccountSas(this.key, grant));
  }

  // A credential with a signature for one table; the options replace a full grant.
  tableSas(name, options = {}) {
    const permissions = { query: true, add: true, update: true, delete: true };
    const grant = { permissions, expiresOn: inHours(1), ...options };
    return new AzureSASCredential(generateTableSas(name, this.key, grant));
  }

  async cleanUp() {
    const filter = `TableName ge '${this.prefix}' and TableName lt '${this.prefix}o'`;
    for await (const { name } of this.service.listTables({ queryOptions: { filter } })) {
      await this.service.deleteTable(name);
    }
  }
}

function inHours(hours) {
  return new Date(Date.now() + hours * HOUR);
}

// What must hold for every answer, whatever the question was.
class Answers {
  last = undefined;
  #without = new Map();
  #unexplained = [];
  #charged = 0;

  policy() {
    return {
      name: "takeAnswers",
      sendRequest: async (request, next) => {
        const response = await next(request);
        this.#take(request, response);
        return response;
      },
    };
  }

  #take(request, response) {
    this.last = response;
    const asked = `${request.method} ${request.url}`;
    for (const header of ["x-ms-request-id", "x-ms-version", "date", "x-ms-request-charge"]) {
      if (!response.headers.has(header) && !this.#without.has(header)) {
        this.#without.set(header, asked);
      }
    }
    if (response.headers.has("x-ms-request-charge")) this.#charged += 1;
    const inXml = (request.headers.get("accept") ?? "").includes("xml");
    const isJson = (response.headers.get("content-type") ?? "").includes("application/json");
    if (response.status >= 400 && !inXml && !isJson) {
      this.#unexplained.push(`${response.status} ${asked}`);
    }
  }

  check(report, cosmos) {
    const headers = ["x-ms-request-id", "x-ms-version", "date"];
    for (const header of headers.concat(cosmos ? ["x-ms-request-charge"] : [])) {
      report.verdict(`every answer has ${header}`, undefined, this.#without.get(header));
    }
    if (!cosmos) report.verdict("no answer has x-ms-request-charge", 0, this.#charged);
    report.verdict("every refusal is explained in JSON", [], this.#unexplained);
  }

  // The status of the last answer and, of its headers, this one.
  lastWith(header) {
    return [this.last.status, this.last.headers.get(header)];
  }
}

module.exports = { Account, NAME, inHours };
