"""Prints what a run of cqlpy came to: files, rates, and failures by reason.

    python table.py RECORD...

A record is what `recorder.py` wrote; of a case that is in several, the last one counts.
"""

import json
import re
import sys
from collections import Counter, defaultdict

# What the mark leaves out by name, by what the case or its message contains.
LEFT_OUT = [
    ("compact storage", r"COMPACT STORAGE|compact_storage_test|compact_table_test"),
    ("functions in foreign languages", r"User-defined functions are disabled|uf_types_test|test_udf"),
    ("needs a process or settings of ScyllaDB", r"table config does not exist|tablet|enable_disable_binary"
     r"|alter_keyspace_rf_by|replication_factor_tag"),
    ("values above the 2 MB of Cosmos DB", r"is larger than the limit of 2097152"),
]


def main():
    cases = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            cases.update((case["case"], case) for case in map(json.loads, file))
    files, failures = defaultdict(Counter), defaultdict(list)
    for case in cases.values():
        outcome = outcome_of(case)
        if outcome is None:
            continue
        file, _, name = case["case"].partition("::")
        files[file][outcome] += 1
        if outcome != "passed":
            failures[file].append((name, outcome, said(case)))
    print_marks(files)
    print_files(files)
    print_failures(failures)


def outcome_of(case):
    """Whether a case passed, failed or is left out; None if it did not run."""
    if case["outcome"] == "passed":
        return "passed"
    if case["outcome"] == "skipped" or "known Cassandra bug" in case["message"]:
        return None
    text = f"{case['case']} {case['message']}"
    for reason, pattern in LEFT_OUT:
        if re.search(pattern, text):
            return reason
    return "failed"


def said(case):
    message = " ".join(case["message"].split())
    answer = re.search(r'message="(.*?)"\'?$', message)
    return answer[1] if answer else message[:160]


def print_marks(files):
    print("| Part | Run | Passed | Rate | Mark |")
    print("|---|---:|---:|---:|---:|")
    for title, is_in, mark in [
        ("translated from Cassandra", lambda file: file.startswith("cassandra_tests"), 90),
        ("its own", lambda file: not file.startswith("cassandra_tests"), 80),
    ]:
        count = Counter()
        for file in filter(is_in, files):
            count.update(files[file])
        ran = count["passed"] + count["failed"]
        rate = 100 * count["passed"] / max(ran, 1)
        print(f"| {title} | {ran} | {count['passed']} | {rate:.1f} % | {mark} % |")
    print()


def print_files(files):
    print("| File | Run | Passed | Left out |")
    print("|---|---:|---:|---:|")
    for file in sorted(files):
        count = files[file]
        ran = count["passed"] + count["failed"]
        print(f"| {file} | {ran} | {count['passed']} | {sum(count.values()) - ran} |")


def print_failures(failures):
    for title, is_wanted in [
        ("What fails", lambda outcome: outcome == "failed"),
        ("What is left out by name", lambda outcome: outcome != "failed"),
    ]:
        print(f"\n## {title}\n")
        for file in sorted(failures):
            wanted = [entry for entry in failures[file] if is_wanted(entry[1])]
            if wanted and title == "What fails":
                print(f"- `{file}`")
                for name, _, message in sorted(wanted):
                    print(f"  - {name}: {message}")
            elif wanted:
                reasons = Counter(reason for _, reason, _ in wanted)
                shown = ", ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items()))
                print(f"- `{file}`: {shown}")


if __name__ == "__main__":
    main()
