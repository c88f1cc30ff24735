"""Partitions and throughput of a server, with the Python drivers of all its APIs: see README.md.

    python walk.py story mongo 127.0.0.1:8080
    python walk.py limits 127.0.0.1:8080
    python walk.py budget 127.0.0.1:8080 --seconds 30
    python walk.py splits 127.0.0.1:8080 --seconds 60

Prints a line of JSON for every case, and figures; the exit code is 0 if all passed.
"""

import argparse
import sys

import budget
import limits
import splits
import story
from apis import APIS
from console import Console
from report import Report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    chosen = parser.add_subparsers(dest="walk", required=True)
    one = chosen.add_parser("story")
    one.add_argument("api", choices=sorted(APIS))
    one.add_argument("endpoint", help="the console's address")
    small = chosen.add_parser("limits")
    small.add_argument("endpoint", help="the console's address")
    for name, seconds in (("budget", 30), ("splits", 60)):
        other = chosen.add_parser(name)
        other.add_argument("endpoint", help="the console's address")
        other.add_argument("--seconds", type=float, default=seconds)
        other.add_argument("--only-correct", action="store_true")
    options = parser.parse_args()
    console, report = Console(options.endpoint), Report(area=options.walk)
    walks = {
        "story": lambda: story.tell(console, options.api, report.case),
        "limits": lambda: limits.walk(console, report.case),
        "budget": lambda: budget.run(console, options.seconds, not options.only_correct,
                                     report.case),
        "splits": lambda: splits.run(console, options.seconds, not options.only_correct,
                                     report.case),
    }
    report.check("it runs to its end", None, walks[options.walk])
    sys.exit(0 if report.finish() else 1)


if __name__ == "__main__":
    main()
