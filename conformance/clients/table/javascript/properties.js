// Properties: each Edm type goes there and comes back as it was.
"use strict";

const bytes = Uint8Array.from({ length: 65536 }, (_, index) => index % 256);
const guid = { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" };

// What is written, and must be read again.
const VALUES = [
  ["String", "text"],
  ["String, empty", ""],
  ["String beyond the BMP", 'a😀b\n\t"\\'],
  ["String that looks like a number", "12"],
  ["String of 32 Ki characters", "x".repeat(32768)],
  ["Int32", 5],
  ["Int32, least", -(2 ** 31)],
  ["Int32, greatest", 2 ** 31 - 1],
  ["Int64", 5n],
  ["Int64, least", -(2n ** 63n)],
  ["Int64, greatest", 2n ** 63n - 1n],
  ["Double", 1.5],
  ["Double, small", 5e-324],
  ["Double, great", 1.7976931348623157e308],
  ["Boolean true", true],
  ["Boolean false", false],
  ["DateTime", new Date("2024-01-02T03:04:05.678Z")],
  ["DateTime, least", new Date("1601-01-01T00:00:00Z")],
  ["DateTime, greatest", new Date("9999-12-31T23:59:59.999Z")],
  ["Guid", guid],
  ["Binary", Uint8Array.of(0, 1, 255)],
  ["Binary, empty", Uint8Array.of()],
  ["Binary of 64 KiB", bytes],
];

// What is written with a type that the value alone would not have, and must be read again with it.
const TYPED = [
  { type: "Int64", value: "5" },
  { type: "Double", value: "NaN" },
  { type: "Double", value: "Infinity" },
  { type: "Double", value: "-Infinity" },
  { type: "DateTime", value: "2024-01-02T03:04:05.6789012Z" },
];

async function walk(account, report) {
  const table = await account.newTable();
  const readBack = async (rowKey, value, options) => {
    await table.upsertEntity({ partitionKey: "p", rowKey, value }, "Replace");
    const read = (await table.getEntity("p", rowKey, options)).value;
    // The SDK gives bytes as a Buffer, which is a Uint8Array of its own kind.
    return read instanceof Uint8Array ? Uint8Array.from(read) : read;
  };

  for (const [name, value] of VALUES) {
    await report.check(`${name}`, value, () => readBack(name, value));
  }
  for (const typed of TYPED) {
    const name = `${typed.type} ${typed.value}`;
    await report.check(`${name}`, { ...typed }, () =>
      readBack(name, typed, { disableTypeConversion: true }));
  }
  await report.check("null is not kept", false, async () => {
    await table.createEntity({ partitionKey: "p", rowKey: "null", a: null });
    return "a" in (await table.getEntity("p", "null"));
  });
}

module.exports = { walk };
