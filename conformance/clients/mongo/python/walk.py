"""Walks over the MongoDB front end with PyMongo.

    python walk.py mongodb://127.0.0.1:27017
    python walk.py mongodb://root:secret@127.0.0.1:27017 --ca cert.pem

Prints a line of JSON for every case; the exit code is 0 if all passed.
"""

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
from report import Report, arguments

PARTS = [connection, documents, queries, updates, cursors, indexes, pipelines, sessions,
         transactions, sharding, administration]


def main():
    parser = arguments(__doc__, "mongodb://127.0.0.1:27017")
    parser.add_argument("--compressors", help="for example zstd,snappy,zlib")
    Report(outcome).walk(PARTS, Place(parser.parse_args()))


if __name__ == "__main__":
    main()
