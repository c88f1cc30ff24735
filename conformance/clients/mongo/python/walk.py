"""Walks over the MongoDB front end with PyMongo.

    python walk.py mongodb://127.0.0.1:27017
    python walk.py mongodb://root:secret@127.0.0.1:27017 --ca cert.pem

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

import argparse
import sys

import administration
import connection
import cursors
import documents
import indexes
import pipelines
import queries
import sessions
import sharding
import transactions
import updates
from checks import outcome
from place import Place
from report import Report

PARTS = [connection, documents, queries, updates, cursors, indexes, pipelines, sessions,
         transactions, sharding, administration]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint", help="for example mongodb://127.0.0.1:27017")
    parser.add_argument("--ca", help="a file with the certificate to trust")
    parser.add_argument("--compressors", help="for example zstd,snappy,zlib")
    options = parser.parse_args()

    place, report = Place(options), Report(outcome)
    try:
        report.parts(PARTS, place)
    finally:
        place.clean_up()
    sys.exit(0 if report.finish() else 1)


if __name__ == "__main__":
    main()
