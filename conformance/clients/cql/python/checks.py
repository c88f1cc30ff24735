"""Cases and their verdicts: one line for each, and a count at the end."""

import traceback

from cassandra import AlreadyExists, AuthenticationFailed, InvalidRequest, Unauthorized
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ConfigurationException, SyntaxException

REFUSALS = (AlreadyExists, AuthenticationFailed, ConfigurationException, InvalidRequest,
            SyntaxException, Unauthorized)


class Refused:
    """An error of the server: its kind, and words that it must say."""

    def __init__(self, kind, words=""):
        self.kind = kind
        self.words = words

    def __eq__(self, other):
        return isinstance(other, Refused) and self.kind == other.kind and self.words in other.words

    def __repr__(self):
        return f"{self.kind.__name__} {self.words!r}"


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
    except REFUSALS as error:
        return Refused(type(error), str(error))
    except NoHostAvailable as error:
        causes = list(error.errors.values())
        if causes and isinstance(causes[0], REFUSALS):
            return Refused(type(causes[0]), str(causes[0]))
        raise
