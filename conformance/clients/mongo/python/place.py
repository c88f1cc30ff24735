"""Where a walk works: its client, and a database of its own that it drops at the end."""

import uuid

from pymongo import MongoClient
from pymongo.uri_parser import parse_uri


class Place:
    def __init__(self, options):
        self.endpoint = options.endpoint
        # Without logins everybody may do everything.
        self.has_logins = parse_uri(self.endpoint)["username"] is not None
        self.settings = {"serverSelectionTimeoutMS": 5000}
        if options.ca:
            self.settings |= {"tls": True, "tlsCAFile": options.ca}
        if options.compressors:
            self.settings["compressors"] = options.compressors
        self.client = self.connect()
        # Without a server every case would wait for one.
        self.client.admin.command("ping")
        self.name = f"walk_{uuid.uuid4().hex[:12]}"
        self.database = self.client[self.name]
        self.collections = 0

    def connect(self, **settings):
        """A further client; `settings` are those of `MongoClient`."""
        return MongoClient(self.endpoint, **(self.settings | settings))

    def connect_as(self, user, password, mechanism="SCRAM-SHA-256", source="admin"):
        """A client that says who it is, whatever the endpoint says."""
        host, port = parse_uri(self.endpoint)["nodelist"][0]
        return MongoClient(host, port, username=user, password=password, authSource=source,
                           authMechanism=mechanism, **self.settings)

    def collection(self, *documents):
        """A new collection with these documents."""
        self.collections += 1
        collection = self.database[f"c{self.collections}"]
        if documents:
            collection.insert_many(documents)
        return collection

    def clean_up(self):
        self.client.drop_database(self.name)
        self.client.close()
