// A browser without a window, driven over the pipe of its DevTools protocol: no package is needed.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const PATIENCE_MS = 30000;

class Browser {
  constructor() {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), "console-walk-"));
    const flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
      "--disable-dev-shm-usage", `--user-data-dir=${this.folder}`];
    // Its sandbox does not work for root, as which containers often run.
    if (process.getuid() === 0) flags.push("--no-sandbox");
    const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
    this.process = spawn(found(), flags, { stdio });
    this.waiting = new Map();
    this.listeners = [];
    this.last = 0;
    this.rest = "";
    this.process.stdio[4].on("data", (bytes) => this.receive(bytes.toString()));
  }

  receive(text) {
    const messages = (this.rest + text).split("\0");
    this.rest = messages.pop();
    for (const message of messages.map((it) => JSON.parse(it))) {
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (!waiting) this.listeners.forEach((listener) => listener(message));
      else if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
    }
  }

  ask(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      setTimeout(() => reject(new Error(`no answer to ${method}`)), PATIENCE_MS).unref();
    });
  }

  // Opens a page, and notes every error that it has.
  async open(url) {
    const { targetId } = await this.ask("Target.createTarget", { url: "about:blank" });
    const attached = await this.ask("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, attached.sessionId);
    for (const domain of ["Page", "Runtime", "Log"]) await page.ask(`${domain}.enable`);
    await page.ask("Page.navigate", { url });
    return page;
  }

  async close() {
    const ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.ask("Browser.close").catch(() => {});
    await ended;
    fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    this.errors = [];
    browser.listeners.push(({ sessionId, method, params }) => {
      if (sessionId !== session) return;
      if (method === "Runtime.exceptionThrown") {
        this.errors.push(params.exceptionDetails.exception?.description ?? "an exception");
      } else if (method === "Log.entryAdded" && params.entry.level === "error") {
        this.errors.push(params.entry.text);
      }
    });
  }

  ask(method, params) {
    return this.browser.ask(method, params, this.session);
  }

  // What an expression is in the page.
  async value(expression) {
    const options = { expression, returnByValue: true, awaitPromise: true };
    const { result, exceptionDetails } = await this.ask("Runtime.evaluate", options);
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.text}`);
    return result.value;
  }

  // What an expression is, once it is something.
  async until(expression) {
    const end = Date.now() + PATIENCE_MS;
    while (Date.now() < end) {
      const value = await this.value(expression);
      if (value) return value;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`not in ${PATIENCE_MS} ms: ${expression}`);
  }
}

function found() {
  const folders = process.env.PATH.split(path.delimiter);
  const files = NAMES.flatMap((name) => folders.map((folder) => path.join(folder, name)));
  const file = files.find((candidate) => fs.existsSync(candidate));
  if (!file) throw new Error(`none of these browsers is installed: ${NAMES.join(", ")}`);
  return file;
}

module.exports = { Browser };
