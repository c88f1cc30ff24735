"""Cases and their verdicts: one line for each, and a count at the end."""

import traceback

from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure


class Refused:
    """An error of the server: its code and, where a case names them, its labels."""

    def __init__(self, code, *labels):
        self.code = code
        self.labels = set(labels)

    def __eq__(self, other):
        return isinstance(other, Refused) and self.code == other.code and self.labels <= other.labels

    def __repr__(self):
        labels = f" with {', '.join(sorted(self.labels))}" if self.labels else ""
        return f"error {self.code}{labels}"

    @classmethod
    def of(cls, error):
        labels = (error.details or {}).get("errorLabels", [])
        if isinstance(error, BulkWriteError):
            return cls(error.details["writeErrors"][0]["code"], *labels)
        return cls(error.code, *labels)


class Matches:
    """Equal to every value for which the test holds; a value that cannot be tested is another."""

    def __init__(self, description, test):
        self.description = description
        self.test = test

    def __eq__(self, other):
        try:
            return bool(self.test(other))
        except (AttributeError, KeyError, TypeError, IndexError):
            return False

    def __repr__(self):
        return self.description


class Report:
    """Runs cases, prints their verdicts and counts them."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def check(self, name, expected, action):
        """Does `action` and compares what it returns, or how it is refused, with `expected`."""
        try:
            self.verdict(name, expected, outcome(action))
        except Exception:  # whatever happened, the walk goes on with the next case
            self.verdict(name, expected, traceback.format_exc(limit=-3))

    def verdict(self, name, expected, actual):
        if expected == actual:
            self.passed += 1
            print(f"ok {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {name}: expected {expected!r:.500}, got {actual!r:.1000}", flush=True)

    def finish(self):
        """Prints the count; true if nothing failed."""
        print(f"{self.passed} passed, {self.failed} failed")
        return self.failed == 0 and self.passed > 0


def outcome(action):
    """What an action returns, or the refusal that it meets."""
    try:
        return action()
    except OperationFailure as error:
        return Refused.of(error)
    except ConnectionFailure:
        return ConnectionFailure
