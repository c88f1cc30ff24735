"""Fills a collection, or looks whether it is as it was filled.

    python stock.py mongodb://127.0.0.1:27017 --fill 3000
    python stock.py mongodb://127.0.0.1:27017 --expect 3000
"""

import argparse
import sys

from pymongo import MongoClient


def item(number):
    return {"_id": number, "kind": number % 7, "text": "x" * (number % 900)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--fill", type=int)
    parser.add_argument("--expect", type=int)
    options = parser.parse_args()
    items = MongoClient(options.endpoint).stock.items
    if options.fill:
        items.create_index("kind")
        items.insert_many(map(item, range(options.fill)))
        return 0
    expected = [item(number) for number in range(options.expect)]
    by_id = list(items.find({}, sort=[("_id", 1)]))
    by_index = items.count_documents({"kind": 3})
    is_right = by_id == expected and by_index == sum(item["kind"] == 3 for item in expected)
    print(f"{len(by_id)} items, {by_index} by their index: {is_right}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
