"""The things that a test names: clients, databases, collections, sessions, buckets, and results."""

from gridfs import GridFSBucket
from pymongo import MongoClient, WriteConcern
from pymongo.change_stream import ChangeStream
from pymongo.client_session import ClientSession, TransactionOptions
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import make_read_preference, read_pref_mode_from_name
from pymongo.server_api import ServerApi

from events import Commands, Connections


class Entities(dict):
    def __init__(self, endpoint):
        super().__init__()
        self.endpoint = endpoint
        self.commands = {}
        self.connections = {}
        self.lsids = {}

    def create(self, specifications):
        for specification in specifications:
            ((kind, options),) = specification.items()
            self[options["id"]] = getattr(self, f"create_{kind}")(options)

    def create_client(self, options):
        commands = Commands(options.get("observeEvents", []), options.get("ignoreCommandMonitoringEvents", []))
        connections = Connections(options.get("observeEvents", []))
        # After an error that makes it doubt the server, a client must not wait ten seconds.
        settings = {"heartbeatFrequencyMS": 500} | options.get("uriOptions", {})
        if "serverApi" in options:
            api = options["serverApi"]
            settings["server_api"] = ServerApi(api["version"], strict=api.get("strict"),
                                               deprecation_errors=api.get("deprecationErrors"))
        client = MongoClient(self.endpoint, event_listeners=[commands, connections],
                             uuidRepresentation="standard", **settings)
        # Tests count what is sent for their operations, and not for getting to know the server.
        client.admin.command("ping")
        for listener in (commands, connections):
            listener.events.clear()
        commands.sent.clear()
        self.commands[options["id"]], self.connections[options["id"]] = commands, connections
        return client

    def create_database(self, options):
        return self[options["client"]].get_database(options["databaseName"], **concerns(
            options.get("databaseOptions", {})))

    def create_collection(self, options):
        return self[options["database"]].get_collection(options["collectionName"], **concerns(
            options.get("collectionOptions", {})))

    def create_session(self, options):
        settings = options.get("sessionOptions", {})
        session = self[options["client"]].start_session(
            causal_consistency=settings.get("causalConsistency"), snapshot=settings.get("snapshot", False),
            default_transaction_options=transaction_options(settings.get("defaultTransactionOptions")))
        if "snapshotTime" in settings:
            # PyMongo has no option for it yet.
            session._snapshot_time = self[settings["snapshotTime"]]
        self.lsids[options["id"]] = session.session_id
        return session

    def create_bucket(self, options):
        return GridFSBucket(self[options["database"]])

    def close(self):
        for entity in self.values():
            if isinstance(entity, ChangeStream):
                entity.close()
            if isinstance(entity, ClientSession):
                entity.end_session()
        for entity in self.values():
            if isinstance(entity, MongoClient):
                entity.close()


def concerns(options):
    """Read concern, write concern and read preference as PyMongo takes them."""
    settings = {}
    if "readConcern" in options:
        settings["read_concern"] = ReadConcern(options["readConcern"].get("level"))
    if "writeConcern" in options:
        settings["write_concern"] = write_concern(options["writeConcern"])
    if "readPreference" in options:
        settings["read_preference"] = read_preference(options["readPreference"])
    return settings


def write_concern(options):
    names = {"wtimeoutMS": "wtimeout", "journal": "j"}
    return WriteConcern(**{names.get(name, name): value for name, value in options.items()})


def read_preference(options):
    mode = read_pref_mode_from_name(options["mode"][0].lower() + options["mode"][1:])
    return make_read_preference(mode, options.get("tagSets"), options.get("maxStalenessSeconds", -1))


def transaction_options(options):
    if options is None:
        return None
    settings = concerns(options)
    return TransactionOptions(max_commit_time_ms=options.get("maxCommitTimeMS"), **settings)
