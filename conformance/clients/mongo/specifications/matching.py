"""Whether a value is what a test expects: the special operators of the unified test format."""

import datetime
from collections.abc import Mapping

from bson import (Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp)

ABSENT = object()

TYPES = {
    "double": float, "string": str, "object": Mapping, "array": list, "binData": (Binary, bytes),
    "objectId": ObjectId, "bool": bool, "date": datetime.datetime, "null": type(None), "regex": Regex,
    "dbPointer": DBRef, "javascript": Code, "int": int, "timestamp": Timestamp, "long": (Int64, int),
    "decimal": Decimal128, "minKey": MinKey, "maxKey": MaxKey, "number": (int, float, Decimal128),
}


class Mismatch(AssertionError):
    """What was expected, what was found, and where."""


class Matcher:
    def __init__(self, entities):
        self.entities = entities

    def check(self, expected, actual, where="the result", root=True):
        """Raises [Mismatch] if they differ. Documents at the root may have further fields."""
        if isinstance(expected, Mapping):
            if len(expected) == 1 and next(iter(expected)).startswith("$$"):
                return self.special(*next(iter(expected.items())), actual, where, root)
            return self.document(expected, actual, where, root)
        if isinstance(expected, list):
            same_length = isinstance(actual, list) and len(actual) == len(expected)
            require(same_length, where, expected, actual)
            for number, (one, other) in enumerate(zip(expected, actual)):
                # The documents of a result are roots of their own.
                self.check(one, other, f"{where}[{number}]", root)
            return None
        same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
        return require(same, where, expected, actual)

    def document(self, expected, actual, where, root):
        require(isinstance(actual, Mapping), where, expected, actual)
        for name, value in expected.items():
            found = actual.get(name, ABSENT)
            inner = f"{where}.{name}"
            if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)).startswith("$$"):
                self.special(*next(iter(value.items())), found, inner, False)
            else:
                require(found is not ABSENT, inner, value, "nothing")
                self.check(value, found, inner, False)
        if not root:
            further = set(actual) - set(expected)
            require(not further, where, "no further fields", further)

    def special(self, operator, operand, actual, where, root):
        if operator == "$$exists":
            return require((actual is not ABSENT) == operand, where, {operator: operand}, actual)
        if operator == "$$unsetOrMatches":
            return None if actual is ABSENT or actual is None else self.check(operand, actual, where, root)
        require(actual is not ABSENT, where, {operator: operand}, "nothing")
        if operator == "$$type":
            names = [operand] if isinstance(operand, str) else operand
            return require(any(is_of_type(actual, name) for name in names), where, names, actual)
        if operator == "$$matchesEntity":
            return self.check(self.entities[operand], actual, where, root)
        if operator == "$$matchesHexBytes":
            return require(bytes(actual).hex() == operand, where, operand, actual)
        if operator == "$$sessionLsid":
            lsid = self.entities.lsids[operand]
            return require(actual == lsid, where, lsid, actual)
        if operator == "$$lte":
            return require(actual <= operand, where, f"at most {operand}", actual)
        raise Mismatch(f"{where}: the operator {operator} is not known")


def is_of_type(value, name):
    if isinstance(value, bool):
        return name == "bool"
    return isinstance(value, TYPES[name])


def require(holds, where, expected, actual):
    if not holds:
        found = "nothing" if actual is ABSENT else repr(actual)
        raise Mismatch(f"{where}: expected {expected!r:.300}, found {found:.300}")
