"""Walks over the Cassandra front end with the Python driver.

    python walk.py 127.0.0.1:9042
    python walk.py 127.0.0.1:9042 --user ada --password secret --ca cert.pem

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

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
from report import Report, arguments

PARTS = [connection, definitions, keys, values, statements, prepared, paging, access]


def main():
    parser = arguments(__doc__, "127.0.0.1:9042")
    parser.add_argument("--user")
    parser.add_argument("--password")
    Report(outcome).walk(PARTS, Place(parser.parse_args()))


if __name__ == "__main__":
    main()
