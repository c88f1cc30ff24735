"""Walks over the Cassandra front end with the Python driver.

    python walk.py 127.0.0.1:9042
    python walk.py 127.0.0.1:9042 --user ada --password secret --ca cert.pem

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

import argparse
import sys

import access
import connection
import definitions
import keys
import paging
import prepared
import statements
import values
from checks import outcome
from place import Place
from report import Report

PARTS = [connection, definitions, keys, values, statements, prepared, paging, access]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint", help="for example 127.0.0.1:9042")
    parser.add_argument("--ca", help="a file with the certificate to trust")
    parser.add_argument("--user")
    parser.add_argument("--password")
    options = parser.parse_args()

    place, report = Place(options), Report(outcome)
    try:
        report.parts(PARTS, place)
    finally:
        place.clean_up()
    sys.exit(0 if report.finish() else 1)


if __name__ == "__main__":
    main()
