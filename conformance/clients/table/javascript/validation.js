// What an entity may not be, as far as the SDK lets it through.
"use strict";

const { Refused } = require("./checks");

const INVALID_KEY = new Refused(400, "InvalidInput", "OutOfRangeInput");
const LONG_KEY = new Refused(
  400, "InvalidInput", "OutOfRangeInput", "KeyValueTooLarge", "PropertyValueTooLarge");
const BAD_VALUE = new Refused(400, "InvalidInput", "InvalidValueType");
const TOO_LARGE = new Refused(400, "PropertyValueTooLarge");
const BAD_NAME = new Refused(400, "PropertyNameInvalid");

const numbered = (count, value) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, value]));

// Name, properties besides valid keys (or instead of them), the refusal.
const INVALID = [
  ...Array.from("/\\#?\t\n\r\x00\x1f\x7f\x80\x9f", (character) => [
    `the character ${JSON.stringify(character)} in RowKey`, { rowKey: `a${character}b` },
    INVALID_KEY,
  ]),
  ["the character / in PartitionKey", { partitionKey: "a/b" }, INVALID_KEY],
  ["no RowKey", { rowKey: undefined }, new Refused(400, "PropertiesNeedValue")],
  ["no PartitionKey", { partitionKey: undefined }, new Refused(400, "PropertiesNeedValue")],
  ["a text of 32 Ki characters and one", { a: "x".repeat(32769) }, TOO_LARGE],
  ["64 KiB of bytes and one", { a: new Uint8Array(65537) }, TOO_LARGE],
  ["253 properties", numbered(253, 1), new Refused(400, "TooManyProperties")],
  ["more than 1 MiB", numbered(40, "x".repeat(32000)), new Refused(400, "EntityTooLarge")],
  ["a name of 256 characters", { ["x".repeat(256)]: 1 },
    new Refused(400, "PropertyNameTooLong")],
  ["a name with a hyphen", { "a-b": 1 }, BAD_NAME],
  ["a name that begins with a digit", { "1a": 1 }, BAD_NAME],
  ["a Guid that is none", { a: { type: "Guid", value: "nonsense" } }, BAD_VALUE],
  ["a DateTime that is none", { a: { type: "DateTime", value: "nonsense" } }, BAD_VALUE],
  ["a number beyond Int32", { a: 2 ** 31 }, BAD_VALUE],
  ["an Int64 that is none", { a: { type: "Int64", value: "1.5" } }, BAD_VALUE],
  ["an Int64 beyond its range", { a: { type: "Int64", value: "9223372036854775808" } }, BAD_VALUE],
  ["a Binary that is none", { a: { type: "Binary", value: "!" } }, BAD_VALUE],
];

const VALID = [
  ["252 properties", numbered(252, 1)],
  ["a name of 255 characters", { ["x".repeat(255)]: 1 }],
  ["names of letters, digits and underscores", { _a1: 1, Ä: 2, 日本: 3 }],
  ["almost 1 MiB", numbered(15, "x".repeat(32000))],
];

const STORAGE = {
  valid: [["a RowKey of 512 characters", { rowKey: "x".repeat(512) }]],
  invalid: [
    ["a RowKey of 1025 characters", { rowKey: "x".repeat(1025) }, LONG_KEY],
    ["a PartitionKey of 1025 characters", { partitionKey: "x".repeat(1025) }, LONG_KEY],
  ],
};
const COSMOS = {
  valid: [["a RowKey of 255 bytes", { rowKey: "x".repeat(255) }]],
  invalid: [
    ["a RowKey of 256 bytes", { rowKey: `${"x".repeat(254)}ä` }, LONG_KEY],
    ["a PartitionKey of 2049 bytes", { partitionKey: "x".repeat(2049) }, LONG_KEY],
    ["a name that is reserved", { id: 1 }, BAD_NAME],
  ],
};

async function walk(account, report) {
  const table = await account.newTable();
  const { valid, invalid } = account.cosmos ? COSMOS : STORAGE;
  for (const [index, [name, properties, refused]] of [...INVALID, ...invalid].entries()) {
    const entity = { partitionKey: "p", rowKey: String(index), ...properties };
    await report.check(`${name} is refused`, refused, () =>
      table.createEntity(entity));
  }
  for (const [name, properties] of [...VALID, ...valid]) {
    await report.check(`${name} are fine`, 204, async () => {
      await table.createEntity({ partitionKey: "p", rowKey: name, ...properties });
      return account.answers.last.status;
    });
  }
}

module.exports = { walk };
