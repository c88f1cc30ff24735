"""What an entity may not be, as far as the SDK lets it through."""

import itertools

from azure.data.tables import EdmType, EntityProperty

from checks import Refused

INVALID_KEY = Refused(400, "InvalidInput", "OutOfRangeInput")
LONG_KEY = Refused(400, "InvalidInput", "OutOfRangeInput", "KeyValueTooLarge",
                   "PropertyValueTooLarge")
BAD_VALUE = Refused(400, "InvalidInput", "InvalidValueType")


def numbered(count, value):
    return {f"p{number}": value for number in range(count)}


# Name, properties besides valid keys (or instead of them), the refusal.
INVALID = [
    *[(f"the character {character!r} in RowKey", {"RowKey": f"a{character}b"}, INVALID_KEY)
      for character in "/\\#?\t\n\r\x00\x1f\x7f\x80\x9f"],
    ("the character '/' in PartitionKey", {"PartitionKey": "a/b"}, INVALID_KEY),
    ("a text of 32 Ki characters and one", {"a": "x" * 32769},
     Refused(400, "PropertyValueTooLarge")),
    ("64 KiB of bytes and one", {"a": bytes(65537)}, Refused(400, "PropertyValueTooLarge")),
    ("253 properties", numbered(253, 1), Refused(400, "TooManyProperties")),
    ("more than 1 MiB", numbered(40, "x" * 32000), Refused(400, "EntityTooLarge")),
    ("a name of 256 characters", {"x" * 256: 1}, Refused(400, "PropertyNameTooLong")),
    ("a name with a hyphen", {"a-b": 1}, Refused(400, "PropertyNameInvalid")),
    ("a name that begins with a digit", {"1a": 1}, Refused(400, "PropertyNameInvalid")),
    ("a name with a space", {"a b": 1}, Refused(400, "PropertyNameInvalid")),
    ("a Guid that is none", {"a": EntityProperty("nonsense", EdmType.GUID)}, BAD_VALUE),
    ("a DateTime that is none", {"a": EntityProperty("nonsense", EdmType.DATETIME)},
     BAD_VALUE),
    ("a Double that is none", {"a": EntityProperty("nonsense", EdmType.DOUBLE)}, BAD_VALUE),
]

VALID = [
    ("252 properties", numbered(252, 1)),
    ("a name of 255 characters", {"x" * 255: 1}),
    ("names of letters, digits and underscores", {"_a1": 1, "Ä": 2, "日本": 3}),
    ("almost 1 MiB", numbered(15, "x" * 32000)),
]


STORAGE = [
    ("a RowKey of 1025 characters", {"RowKey": "x" * 1025}, LONG_KEY),
    ("a PartitionKey of 1025 characters", {"PartitionKey": "x" * 1025}, LONG_KEY),
]
COSMOS = [
    ("a RowKey of 256 bytes", {"RowKey": "x" * 254 + "ä"}, LONG_KEY),
    ("a PartitionKey of 2049 bytes", {"PartitionKey": "x" * 2049}, LONG_KEY),
    *[(f"the name {name}, which is reserved,", {name: 1}, Refused(400, "PropertyNameInvalid"))
      for name in ("id", "rid", "etag", "ResourceId")],
]


def walk(account, report):
    table = account.new_table()
    rows = itertools.count()

    def insert(properties):
        return table.create_entity(
            {"PartitionKey": "p", "RowKey": str(next(rows)), **properties})["etag"]

    def upsert(properties):
        return table.upsert_entity(
            {"PartitionKey": "p", "RowKey": f"u{next(rows)}", **properties})["etag"]

    for name, properties, refused in INVALID + (COSMOS if account.cosmos else STORAGE):
        report.check(f"{name} is refused", refused,
                     lambda properties=properties: insert(properties))
        if "Key" not in name:
            report.check(f"{name} is refused in an upsert too", refused,
                         lambda properties=properties: upsert(properties))
    for name, properties in VALID:
        report.check(f"{name} are fine", True,
                     lambda properties=properties: bool(upsert(properties)))
    # The SDK raises ValueError when the service says that a key has no value.
    for key in ("PartitionKey", "RowKey"):
        report.check(f"no {key}", ValueError,
                     lambda key=key: table.create_entity({"PartitionKey": "p", "RowKey": "r"}
                                                         | {key: None}))
