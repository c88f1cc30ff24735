"""Where the walk works: sessions with the server, and a keyspace that is dropped at the end."""

import ssl

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.query import tuple_factory

KEYSPACE = "walk_python"


class Place:
    def __init__(self, options):
        self.host, port = options.endpoint.rsplit(":", 1)
        self.port = int(port)
        self.user, self.password = options.user, options.password
        self.ca = options.ca
        self.clusters = []
        self.session = self.connect()
        self.session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        self.session.execute(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        self.session.set_keyspace(KEYSPACE)

    def connect(self, version=5, compression=True, user=None, password=None):
        """A session that speaks this version of the protocol."""
        return self.cluster(version, compression, user, password).connect()

    def cluster(self, version=5, compression=True, user=None, password=None):
        options = {}
        if self.ca:
            context = ssl.create_default_context(cafile=self.ca)
            context.check_hostname = False
            options["ssl_context"] = context
        if user or self.user:
            options["auth_provider"] = PlainTextAuthProvider(
                user or self.user, password or self.password)
        policy = TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1"))
        profile = ExecutionProfile(load_balancing_policy=policy, row_factory=tuple_factory,
                                   request_timeout=60)
        cluster = Cluster([self.host], port=self.port, protocol_version=version,
                          compression=compression, connect_timeout=20,
                          execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **options)
        self.clusters.append(cluster)
        return cluster

    def rows(self, statement, values=None):
        """All rows of a statement."""
        return list(self.session.execute(statement, values))

    def each(self, *statements):
        """Runs statements one after another."""
        for statement in statements:
            self.session.execute(statement)

    def clean_up(self):
        self.session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        for cluster in self.clusters:
            cluster.shutdown()
