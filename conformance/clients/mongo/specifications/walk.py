"""Runs the unified tests of a checkout of mongodb/specifications over a server.

    python walk.py --path specifications mongodb://127.0.0.1:27017
    python walk.py --path specifications --only transactions --verbose mongodb://127.0.0.1:27017

The server must take test commands (`tessera serve --enable-test-commands`). Prints what fails, a
table by area, and with `--ledger FILE` compares the counts with those in that file: the exit code
is 0 if no area has fewer passes.
"""

import argparse
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

from bson import json_util

from runner import Runner, Skipped

AREAS = ["crud", "collection-management", "index-management", "sessions", "transactions",
         "retryable-writes", "retryable-reads", "run-command"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint", help="for example mongodb://127.0.0.1:27017")
    parser.add_argument("--path", required=True, help="a checkout of mongodb/specifications")
    parser.add_argument("--only", help="run tests whose area, file or description contains this")
    parser.add_argument("--verbose", action="store_true", help="print passes and skips too")
    parser.add_argument("--ledger", help="a file with the passes expected of each area")
    options = parser.parse_args()

    runner = Runner(options.endpoint)
    counts, reasons = defaultdict(Counter), Counter()
    for area, name, document, test in tests(Path(options.path), options.only):
        title = f"{area}/{name}: {test['description']}"
        verdict, why = run(runner, document, test)
        counts[area][verdict] += 1
        if verdict == "skipped":
            reasons[why] += 1
        if verdict == "failed" or options.verbose:
            print(f"{verdict.upper() if verdict == 'failed' else verdict} {title}: {why}", flush=True)
    report(counts, reasons)
    sys.exit(0 if not options.ledger or kept(counts, options.ledger) else 1)


def tests(path, only):
    """Every test of the chosen areas, with the document that it is part of."""
    for area in AREAS:
        for file in sorted((path / "source" / area / "tests").rglob("*.json")):
            document = json_util.loads(file.read_text(), json_options=json_util.JSONOptions(tz_aware=False))
            for test in document["tests"] if "schemaVersion" in document else []:
                if not only or only in f"{area}/{file.stem}: {test['description']}":
                    yield area, file.stem, document, test


def run(runner, document, test):
    try:
        runner.run(document, test)
        return "passed", ""
    except Skipped as reason:
        return "skipped", str(reason)
    except Exception as error:  # whatever happened, the next test is run
        return "failed", f"{type(error).__name__}: {error}"[:600]


def report(counts, reasons):
    print(f"\n{'area':<24}{'passed':>8}{'failed':>8}{'skipped':>9}{'rate':>8}")
    for area, count in counts.items():
        ran = count["passed"] + count["failed"]
        rate = f"{100 * count['passed'] / ran:.1f} %" if ran else "-"
        print(f"{area:<24}{count['passed']:>8}{count['failed']:>8}{count['skipped']:>9}{rate:>8}")
    for reason, count in reasons.most_common():
        print(f"skipped {count}: {reason}")


def kept(counts, ledger):
    """Whether every area passes as many tests as the ledger says, or more."""
    expected = tomllib.loads(Path(ledger).read_text())
    short = [area for area, wanted in expected.items() if counts[area]["passed"] < wanted["passed"]]
    for area in short:
        print(f"{area}: {counts[area]['passed']} passed, {expected[area]['passed']} expected")
    return not short


if __name__ == "__main__":
    main()
