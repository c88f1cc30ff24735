"""One container in each API: made, provisioned, filled and read with the API's own driver.

Each class has the same methods. Rows have a partition key and a number, both unique together.
"""

import re
import socket
import time

from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RetryPolicy, RoundRobinPolicy
from cassandra.protocol import OverloadedErrorMessage
from cassandra.query import SimpleStatement, tuple_factory
from pymongo import MongoClient
from pymongo.errors import OperationFailure

DATABASE = "partitions_walk"
ACCOUNT = "devstoreaccount1"
KEY = ("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
TEXT = "x" * 100


class Throttled(Exception):
    """The server refused a request for want of throughput."""


class Mongo:
    name = "mongo"
    database = DATABASE

    def __init__(self, address, retries):
        # Without retries a refusal is seen; with them the driver waits as the server says.
        options = {"maxAdaptiveRetries": 20} if retries else {"retryWrites": False,
                                                              "retryReads": False}
        self.client = MongoClient(f"mongodb://{address}/", **options)
        self.db = self.client[DATABASE]

    def create(self, container, throughput):
        self.db.drop_collection(container)
        command = {"customAction": "CreateCollection", "collection": container, "shardKey": "key"}
        self.db.command(command | provisioned(throughput, "offerThroughput"))

    def provision(self, container, throughput):
        self.db.command({"customAction": "UpdateCollection", "collection": container,
                         "offerThroughput": throughput})

    def put(self, container, key, row, text=TEXT):
        document = {"_id": f"{key}/{row}", "key": key, "row": row, "text": text}
        throttling(lambda: self.db[container].insert_one(document))

    def get(self, container, key, row):
        query = {"_id": f"{key}/{row}", "key": key}
        return throttling(lambda: self.db[container].find_one(query)) is not None

    def each(self, container, page):
        """All rows, asked for in pages of this many."""
        for row in self.db[container].find(batch_size=page):
            yield row["key"], row["row"]

    def hottest(self, container):
        query = {"ns": f"{DATABASE}.{container}"}
        first = self.client["config"]["hotKeys"].find_one(query, sort=[("_id.rank", 1)])
        return plain(first["key"])

    def close(self):
        self.client.close()


class Cql:
    name = "cql"
    database = DATABASE

    def __init__(self, address, retries):
        host, port = address.rsplit(":", 1)
        policy = WaitAsTold() if retries else NeverRetry()
        profile = ExecutionProfile(RoundRobinPolicy(), policy, row_factory=tuple_factory,
                                   request_timeout=60)
        # Without it the last part of a large request waits for an answer to the first.
        at_once = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        self.cluster = Cluster([host], port=int(port), protocol_version=4, connect_timeout=20,
                               sockopts=at_once, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        self.session = self.cluster.connect()
        self.session.execute(
            f"CREATE KEYSPACE IF NOT EXISTS {DATABASE} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        self.session.set_keyspace(DATABASE)
        self.prepared = {}

    def create(self, container, throughput):
        self.session.execute(f"DROP TABLE IF EXISTS {container}")
        option = f" WITH cosmosdb_provisioned_throughput = {throughput}" if throughput else ""
        self.session.execute(f"CREATE TABLE {container} (key text, row int, text text, "
                             f"PRIMARY KEY (key, row)){option}")

    def provision(self, container, throughput):
        self.session.execute(
            f"ALTER TABLE {container} WITH cosmosdb_provisioned_throughput = {throughput}")

    def put(self, container, key, row, text=TEXT):
        statement = f"INSERT INTO {container} (key, row, text) VALUES (?, ?, ?)"
        self.execute(statement, (key, row, text))

    def get(self, container, key, row):
        statement = f"SELECT text FROM {container} WHERE key = ? AND row = ?"
        return self.execute(statement, (key, row)).one() is not None

    def execute(self, statement, values):
        if statement not in self.prepared:
            self.prepared[statement] = self.session.prepare(statement)
        return throttling(lambda: self.session.execute(self.prepared[statement], values))

    def each(self, container, page):
        statement = SimpleStatement(f"SELECT key, row FROM {container}", fetch_size=page)
        yield from self.session.execute(statement)

    def hottest(self, container):
        return plain(self.session.execute(
            "SELECT partition_key FROM system_views.hot_keys WHERE keyspace_name = %s AND "
            "table_name = %s AND rank = 1", (DATABASE, container)).one()[0])

    def close(self):
        self.cluster.shutdown()


class NeverRetry(RetryPolicy):
    def on_request_error(self, *_arguments, **_named):
        return self.RETHROW, None


class WaitAsTold(RetryPolicy):
    """What clients of Cosmos DB use: the same request again after the time that the error says."""

    def on_request_error(self, query, consistency, error, retry_num):
        told = re.search(r"RetryAfterMs=(\d+)", str(error))
        if told is None or retry_num >= 20:
            return self.RETHROW, None
        time.sleep(int(told.group(1)) / 1000)
        return self.RETRY, consistency


class Table:
    name = "table"
    database = ACCOUNT

    def __init__(self, address, retries):
        connection = (f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
                      f"TableEndpoint=http://{address}/{ACCOUNT}")
        # The package's own retry is on unless it is told not to.
        options = {} if retries else {"retry_total": 0}
        self.service = TableServiceClient.from_connection_string(connection, **options)

    def create(self, container, throughput):
        self.service.delete_table(container)
        headers = {"x-ms-offer-throughput": str(throughput)} if throughput else {}
        self.service.create_table(container, headers=headers)

    def provision(self, container, throughput):
        """The Table API has no request for it; people use the portal, which the console is here."""
        raise NotImplementedError

    def put(self, container, key, row, text=TEXT):
        entity = {"PartitionKey": key, "RowKey": str(row), "text": text}
        table = self.service.get_table_client(container)
        throttling(lambda: table.create_entity(entity))

    def get(self, container, key, row):
        table = self.service.get_table_client(container)
        return throttling(lambda: table.get_entity(key, str(row))) is not None

    def each(self, container, page):
        entities = self.service.get_table_client(container).list_entities(
            select=["PartitionKey", "RowKey"], results_per_page=page)
        for entity in entities:
            yield entity["PartitionKey"], int(entity["RowKey"])

    def hottest(self, container):
        """The Table API shows no such thing."""
        return None

    def close(self):
        self.service.close()


APIS = {api.name: api for api in (Mongo, Cql, Table)}


def plain(key):
    """A key as the server shows it, without what says that it is the value of a field."""
    shown = re.fullmatch(r"""(?:\{ )?key(?: =|:) ["']?(.*?)["']?(?: \})?""", key)
    return shown.group(1) if shown else key


def provisioned(throughput, option):
    return {option: throughput} if throughput else {}


def throttling(action):
    """Does something, and tells a refusal for want of throughput from all others."""
    try:
        return action()
    except OperationFailure as error:
        if error.code == 16500:
            raise Throttled from error
        raise
    except OverloadedErrorMessage as error:
        raise Throttled from error
    except HttpResponseError as error:
        if error.status_code == 429:
            raise Throttled from error
        raise
