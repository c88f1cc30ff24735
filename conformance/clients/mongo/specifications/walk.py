"""Runs the unified tests of a checkout of mongodb/specifications over a server.

    python walk.py --path specifications --record FILE mongodb://127.0.0.1:27017
    python walk.py --path specifications --only transactions --verbose mongodb://127.0.0.1:27017

The server must take test commands (`tessera serve --enable-test-commands`). Prints what fails and
writes what came of each test as a line of JSON; `tessera-conformance external` counts them.
"""

import argparse
import json
from pathlib import Path

from bson import json_util

from runner import Runner, Skipped

AREAS = ["crud", "collection-management", "index-management", "sessions", "transactions",
         "retryable-writes", "retryable-reads", "run-command", "change-streams"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint", help="for example mongodb://127.0.0.1:27017")
    parser.add_argument("--path", required=True, help="a checkout of mongodb/specifications")
    parser.add_argument("--only", help="run tests whose area, file or description contains this")
    parser.add_argument("--verbose", action="store_true", help="print passes and skips too")
    parser.add_argument("--record", help="a file that gets one line of JSON for each test")
    options = parser.parse_args()

    runner = Runner(options.endpoint)
    for area, name, document, test in tests(Path(options.path), options.only):
        title = f"{area}/{name}: {test['description']}"
        verdict, why = run(runner, document, test)
        if options.record:
            with open(options.record, "a", encoding="utf-8") as record:
                record.write(json.dumps({"case": title, "outcome": verdict, "message": why}) + "\n")
        if verdict == "failed" or options.verbose:
            print(f"{verdict.upper() if verdict == 'failed' else verdict} {title}: {why}", flush=True)


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


if __name__ == "__main__":
    main()
