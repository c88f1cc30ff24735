"""Connecting in every version and with every compression, and what the driver learns."""

import struct
import time

from cassandra import ProtocolVersion
from cassandra.cluster import Cluster
from cassandra.query import SimpleStatement

from report import Matches


def walk(place, report):
    for version in (3, 4, 5):
        for compression in (False, "lz4", "snappy"):
            if version == 5 and compression == "snappy":
                continue  # Version 5 has no snappy.
            report.check(f"version {version}, compression {compression}",
                         [("local", "5.0.0", "3.4.7")],
                         lambda: hello(place, version, compression))
    report.check("the driver finds the highest version by itself", ProtocolVersion.V5,
                 lambda: negotiated(place))
    report.check("the whole ring is one node's", 16, lambda: len(ring(place)))
    report.check("events tell of new tables", True, lambda: hears(place))
    report.check("a request tells its charge", Matches("a positive number", lambda n: n > 0),
                 lambda: charge(place))
    report.check("a trace is kept", Matches("steps", lambda steps: len(steps) >= 2),
                 lambda: trace(place))


def hello(place, version, compression):
    session = place.connect(version, compression)
    found = session.execute("SELECT key, release_version, cql_version FROM system.local")
    session.cluster.shutdown()
    return list(found)


def negotiated(place):
    cluster = Cluster([place.host], port=place.port) if not (place.ca or place.user) \
        else place.cluster()
    cluster.connect()
    version = cluster.protocol_version
    cluster.shutdown()
    return version


def ring(place):
    return place.session.cluster.metadata.token_map.ring


def hears(place):
    listener = place.cluster()
    listener.connect()
    place.session.execute("CREATE TABLE heard (k int PRIMARY KEY)")
    keyspace = place.session.keyspace
    for _ in range(100):
        if "heard" in listener.metadata.keyspaces[keyspace].tables:
            break
        time.sleep(0.1)  # The driver waits a little for more events before it looks.
    found = "heard" in listener.metadata.keyspaces[keyspace].tables
    listener.shutdown()
    return found


def charge(place):
    future = place.session.execute_async("INSERT INTO heard (k) VALUES (1)")
    future.result()
    return struct.unpack(">d", future.custom_payload["RequestCharge"])[0]


def trace(place):
    statement = SimpleStatement("SELECT * FROM heard WHERE k = 1")
    result = place.session.execute(statement, trace=True)
    trace = result.get_query_trace(max_wait_sec=10)
    return [event.description for event in trace.events]
