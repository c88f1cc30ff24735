"""Partitions and throughput of a server, with the Python drivers of all its APIs: see README.md.

    python walk.py story mongo 127.0.0.1:8080
    python walk.py splits 127.0.0.1:8080 --seconds 60

Prints a line for every case and ends with a count; the exit code is 0 if all passed.
"""

import argparse
import sys
import traceback

import splits
import story
from apis import APIS
from console import Console


class Report:
    """Prints verdicts and counts them."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def __call__(self, name, is_true, found):
        if is_true:
            self.passed += 1
            print(f"ok {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {name}: {found!s:.1000}", flush=True)

    def run(self, action):
        try:
            action()
        except Exception:  # the report shall say what happened
            self("it runs to its end", False, traceback.format_exc(limit=-3))
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.failed == 0 and self.passed > 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    chosen = parser.add_subparsers(dest="walk", required=True)
    one = chosen.add_parser("story")
    one.add_argument("api", choices=sorted(APIS))
    one.add_argument("endpoint", help="the console's address")
    other = chosen.add_parser("splits")
    other.add_argument("endpoint", help="the console's address")
    other.add_argument("--seconds", type=float, default=60)
    other.add_argument("--only-correct", action="store_true")
    options = parser.parse_args()
    console, report = Console(options.endpoint), Report()
    if options.walk == "story":
        sys.exit(report.run(lambda: story.tell(console, options.api, report)))
    judges = not options.only_correct
    sys.exit(report.run(lambda: splits.run(console, options.seconds, judges, report)))


if __name__ == "__main__":
    main()
