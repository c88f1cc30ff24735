"""Prints what a run of documentdb/functional-tests came to: areas, rates, and failures by reason.

    python table.py RECORD...

A record is what `recorder.py` wrote; of a case that is in several, the last one counts.
"""

import json
import re
import sys
from collections import Counter, defaultdict

# What this server says it does not have, by what its answer or the name of the case contains.
REASONS = [
    ("time series collections", r"time series|timeseries|system_buckets|bucketing"),
    ("change streams", r"change.?streams?|changeStream"),
    ("search and vector search", r"\$?(vectorSearch|searchMeta|rankFusion|scoreFusion)\b|[sS]earch[_ ]?[iI]ndex|/search"),
    ("geospatial queries and indexes", r"geospatial|\bgeo|2dsphere|2d_|\$near|'2d'|'2ds"),
    ("text queries and indexes", r"'text'|\btext_|_text\b|/text/|\$text"),
    ("JavaScript: $where, $function, mapReduce", r"JavaScript|\$where|mapReduce|\$function|\$accumulator"),
    ("a command that this server does not have", r"no such command"),
    ("replica set members, of which a router is none", r"hello_replica_set|replica.?set|/replication/|oplog"),
]

# What the mark of at least 90 % is about, and the areas that belong to it.
MARKED = {
    "query operators": ["operator/query"],
    "projection operators": ["operator/projection"],
    "update operators": ["operator/update"],
    "CRUD commands": ["query_and_write", "aggregation/count", "aggregation/distinct"],
    "cursors": ["cursors"],
    "collection commands": ["collections"],
    "indexes": ["indexes"],
    "sessions": ["sessions"],
}

# Of these the mark leaves out what fails.
LEFT_OUT = {reason for reason, _ in REASONS[:5]}


def main():
    cases = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            cases.update((case["case"], case) for case in map(json.loads, file))
    areas, failures = defaultdict(Counter), defaultdict(lambda: defaultdict(list))
    for case in cases.values():
        area = area_of(case["case"])
        areas[area][case["outcome"]] += 1
        if case["outcome"] == "failed":
            areas[area]["left out"] += left_out(case)
            failures[area][reason_of(case)].append(name_of(case["case"]))
    print_marked(areas)
    print_areas(areas)
    print_failures(failures)


def area_of(case):
    """The folders of a case, without the one that all share and at most three of them."""
    folders = case.split("::")[0].split("/")[:-1]
    folders = folders[folders.index("tests") + 1:] if "tests" in folders else folders
    return "/".join(folder for folder in folders[:4] if folder not in ("core", "commands"))


def name_of(case):
    """The file of a case, and what tells it from the others there."""
    file, _, name = case.rsplit("/", 1)[-1].partition("::")
    parameters = re.search(r"\[documentdb-(.*)\]$", name)
    return file, parameters[1] if parameters else name.partition("[")[0]


def reason_of(case):
    said = f"{case['case']} {case['message']}"
    for reason, pattern in REASONS:
        if re.search(pattern, said):
            return reason
    message = " ".join(case["message"].split())
    codes = re.search(r"Expected: \{'code': (-?\d+)\}.*?Actual: \{'code': (-?\d+)\}", message)
    if codes:
        return f"fails with {codes[2]}, not with {codes[1]}"
    if "UNEXPECTED_SUCCESS" in message:
        return "takes what must be refused"
    failure = re.search(r"UNEXPECTED_ERROR.*?'code': (-?\d+)", message)
    if failure:
        return f"refuses with {failure[1]} what must be taken"
    return "answers something else"


def left_out(case):
    """Whether a failure is of a kind that the mark leaves out by name."""
    return reason_of(case) in LEFT_OUT


def print_marked(areas):
    print_head("Marked")
    for title, prefixes in MARKED.items():
        count = Counter()
        for area in areas:
            if any(area == prefix or area.startswith(f"{prefix}/") for prefix in prefixes):
                count.update(areas[area])
        print_area(title, count)
    print()


def print_head(title):
    print(f"| {title} | Run | Passed | Rate | Without what is left out by name |")
    print("|---|---:|---:|---:|---:|")


def print_areas(areas):
    print_head("Area")
    total = Counter()
    for area in sorted(areas):
        total.update(areas[area])
        print_area(area, areas[area])
    print_area("all", total)


def print_area(area, count):
    ran = count["passed"] + count["failed"]
    rest = ran - count["left out"]
    rate = lambda of: f"{100 * count['passed'] / of:.1f} %" if of else "-"
    print(f"| {area} | {ran} | {count['passed']} | {rate(ran)} | {rate(rest)} |")


def print_failures(failures):
    for area in sorted(failures):
        print(f"\n## {area}\n")
        for reason, names in sorted(failures[area].items(), key=lambda item: -len(item[1])):
            print(f"- {reason} ({len(names)}):")
            files = defaultdict(list)
            for file, name in sorted(names):
                files[file].append(name)
            for file, names in files.items():
                # Whole features that are not there need no list of what they break.
                shown = len(names) if reason in LEFT_OUT else ", ".join(names)
                print(f"  - `{file}`: {shown}")


if __name__ == "__main__":
    main()
