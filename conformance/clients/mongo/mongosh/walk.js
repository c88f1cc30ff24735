// Types a session into stock mongosh and compares what it prints with what it should.
//
//     node walk.js mongodb://127.0.0.1:27017
//     node walk.js mongodb://127.0.0.1:27017 --write    (writes what it prints as what it should)
//
// Prints a line of JSON for every input; the exit code is 0 if all passed.
"use strict";

const { spawnSync } = require("node:child_process");
const { readFileSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");
const { parseArgs } = require("node:util");

const { Report } = require("../../report");

const MARK = "mark 7d1f:";
const EXPECTED = join(__dirname, "session.txt");

// What differs from run to run: identifiers, times, sizes, addresses.
const VARYING = [
  [/UUID\('[0-9a-f-]+'\)/g, "UUID"],
  [/ObjectId\('[0-9a-f]+'\)/g, "ObjectId"],
  [/Binary\.createFromBase64\('[^']*', \d+\)/g, "Binary"],
  [/Timestamp\(\{ t: \d+, i: \d+ \}\)/g, "Timestamp"],
  [/(ISODate|Long)\('[^']*'\)/g, "$1"],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "time"],
  [/127\.0\.0\.1:\d+/g, "address"],
  [/\d+(\.\d+)? (B|KiB|MiB|GiB)/g, "size"],
];

function main() {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { ca: { type: "string" }, write: { type: "boolean", default: false } },
  });
  const cases = written(readFileSync(join(__dirname, "session.js"), "utf8"));
  const inputs = cases.map(({ input }) => input);
  const answers = session(positionals[0], values.ca, inputs);
  const transcript = inputs.map((input, at) => `> ${input}\n${answers[at]}`);
  if (values.write) {
    writeFileSync(EXPECTED, `${transcript.join("\n")}\n`);
    return 0;
  }
  return compare(cases, transcript);
}

// The inputs, each with its area and a name that no other has.
function written(text) {
  const times = new Map();
  const cases = [];
  let area;
  // A line that is indented or closes something belongs to the one before.
  for (const input of text.trimEnd().split(/\n(?![ })])/)) {
    area = /^\/\/ area (\w+)$/.exec(input)?.[1] ?? area;
    if (input === "" || input.startsWith("//")) continue;
    const line = input.replace(/\s+/g, " ");
    const time = (times.get(line) ?? 0) + 1;
    times.set(line, time);
    cases.push({ area, input, name: time === 1 ? line : `${line} (${time})` });
  }
  return cases;
}

// What mongosh prints for each input. It prints a mark after each, by which they are told apart.
function session(endpoint, ca, inputs) {
  const arguments_ = [require.resolve("mongosh/bin/mongosh.js"), endpoint, "--quiet"];
  if (ca) arguments_.push("--tls", "--tlsCAFile", ca);
  const typed = inputs.map((input, at) => `${input}\nprint("${MARK}${at}")\n`).join("");
  const { stdout, stderr, status } = spawnSync(process.execPath, arguments_, {
    input: `config.set("displayBatchSize", 20)\n${typed}`,
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  const parts = stdout.split(new RegExp(`${MARK}\\d+\n`));
  if (parts.length !== inputs.length + 1) {
    console.log(`mongosh ended with ${status} after ${parts.length - 1} answers:`);
    console.log(`${stdout}\n${stderr}`);
  }
  return inputs.map((_, at) => normal(parts[at] ?? "nothing", at));
}

// Without prompts, and with a word in place of what varies.
function normal(text, at) {
  const prompt = /^(\S* ?\[direct: \w+\] \w+> |\S*\w*> |\.\.\. )+/gm;
  let answer = text.replace(prompt, "");
  // The first part also holds the answer of setting up.
  if (at === 0) answer = answer.replace(/^Setting "displayBatchSize".*\n/, "");
  for (const [pattern, word] of VARYING) answer = answer.replace(pattern, word);
  return answer.trimEnd();
}

function compare(cases, transcript) {
  const expected = readFileSync(EXPECTED, "utf8").split(/^(?=> )/m);
  const report = new Report();
  cases.forEach(({ area, name }, at) => {
    const [wanted, actual] = [(expected[at] ?? "").trimEnd(), transcript[at]];
    // Where mongosh breaks lines depends on the terminal, and some of them on what it hears first.
    const words = (text) => text.split(/[\s,]+/).filter(Boolean).sort().join(" ");
    report.area = area;
    const message = () => `expected\n${wanted}\n  and got\n${actual}`;
    report.case(name, words(wanted) === words(actual), message);
  });
  return report.finish() ? 0 : 1;
}

process.exitCode = main();
