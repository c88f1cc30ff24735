"""What the walks with Python share: cases and their verdicts, a line of JSON for each.

The runner, `tessera-conformance run`, reads these lines; README.md says what is in them.
"""

import argparse
import json
import sys
import time
import traceback


def arguments(description, example):
    """A parser of what every walk takes: where a server is, and whom to trust."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("endpoint", help=f"for example {example}")
    parser.add_argument("--ca", help="a file with the certificate to trust")
    return parser


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
    """Does cases and prints what came of them. `outcome` does an action, and answers what it
    returns or how the server refuses it."""

    def __init__(self, outcome=lambda action: action(), area="walk"):
        self.outcome = outcome
        self.area = area
        self.passed = self.failed = 0
        self.since = time.monotonic()

    def walk(self, parts, place, then=lambda: None):
        """Walks over every part, does what comes behind them all, leaves the place as it was and
        ends the program."""
        try:
            self.parts(parts, place)
            then()
        finally:
            place.clean_up()
        sys.exit(0 if self.finish() else 1)

    def parts(self, parts, *place):
        """Walks over every part; its name is the area of its cases."""
        for part in parts:
            self.area = part.__name__
            self.check("the part runs to its end", None, lambda: part.walk(*place, self))

    def check(self, name, expected, action):
        """Does `action` and compares what it returns, or how it is refused, with `expected`."""
        try:
            self.verdict(name, expected, self.outcome(action))
        except Exception:  # whatever happened, the walk goes on with the next case
            self.verdict(name, expected, traceback.format_exc(limit=-3))

    def verdict(self, name, expected, actual):
        """Compares what was found with what should be."""
        self.case(name, expected == actual, f"expected {expected!r:.500}, got {actual!r:.1000}")

    def case(self, name, holds, found):
        """Prints a case; `found` is the message if it fails. Its time began with the end of the
        case before it."""
        self.passed += bool(holds)
        self.failed += not holds
        now = time.monotonic()
        line = {"area": self.area, "case": name, "outcome": "passed" if holds else "failed",
                "ms": round((now - self.since) * 1000, 3), "message": "" if holds else str(found)}
        self.since = now
        print(json.dumps(line), flush=True)

    def finish(self):
        """True if nothing failed."""
        return self.failed == 0 and self.passed > 0
