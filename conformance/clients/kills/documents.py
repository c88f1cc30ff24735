"""PyMongo: documents with indexes, counters, and money that goes from account to account."""

import collections
import random

import pymongo
from pymongo.errors import DuplicateKeyError, OperationFailure

from known import GONE, Counters, Values, compare

KEYS = 300
ACCOUNTS = 12
BEGIN = 1000


class Part:
    def __init__(self, tally):
        self.tally = tally
        self.documents = Values(tally, "mongo document")
        self.counters = Counters(tally, "mongo $inc")
        self.client = None

    def connect(self, place, patience_ms):
        self.client = pymongo.MongoClient(
            f"mongodb://{place}/?directConnection=true", serverSelectionTimeoutMS=patience_ms,
            socketTimeoutMS=60000, connectTimeoutMS=20000)

    def disconnect(self):
        self.client.close()

    def set_up(self):
        kills = self.client.kills
        kills.documents.create_index("a")
        kills.documents.create_index("unique", unique=True)
        kills.documents.create_index("many")
        kills.documents.create_index([("a", 1), ("value", -1)])
        kills.accounts.insert_many([{"_id": i, "money": BEGIN} for i in range(ACCOUNTS)])

    def steps(self, worker, workers):
        kills = self.client.kills
        chance = random.Random(self.tally.number())
        own = range(worker, KEYS, workers)
        while True:
            kind = chance.random()
            if kind < 0.5:
                self.replace(kills, chance.choice(own), chance)
            elif kind < 0.6:
                key = chance.choice(own)
                self.documents.write(key, GONE, lambda: kills.documents.delete_one({"_id": key}))
            elif kind < 0.8:
                key = f"counter {chance.randrange(4)}"
                self.counters.add(key, lambda: kills.counters.update_one(
                    {"_id": key}, {"$inc": {"n": 1}}, upsert=True))
            elif kind < 0.95:
                self.transfer(kills, chance)
            else:
                self.collide(kills, chance)
            yield

    def replace(self, kills, key, chance):
        value = self.tally.number()
        document = {"value": value, "a": value % 20, "unique": f"u{value}",
                    "many": [value % 3, value % 5], "rest": "x" * chance.randrange(2000)}
        self.documents.write(key, value, lambda: kills.documents.replace_one(
            {"_id": key}, document, upsert=True))

    def transfer(self, kills, chance):
        giver, taker = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randrange(1, 20)
        try:
            with self.client.start_session() as session, session.start_transaction():
                for account, change in ((giver, -amount), (taker, amount)):
                    kills.accounts.update_one({"_id": account}, {"$inc": {"money": change}},
                                              session=session)
            self.tally.done("mongo transaction")
        except OperationFailure as error:
            if not error.has_error_label("TransientTransactionError"):
                raise

    def collide(self, kills, chance):
        """A second document with a unique value that may be there."""
        other = kills.documents.find_one({}, skip=chance.randrange(20))
        if other is None:
            return
        try:
            number = self.tally.number()
            kills.collisions.insert_one({"_id": number})
            kills.documents.insert_one({"_id": f"second {number}", "unique": other["unique"]})
            # The first of them was replaced or deleted meanwhile.
            kills.documents.delete_one({"_id": f"second {number}"})
        except DuplicateKeyError:
            self.tally.done("mongo duplicate refused")

    def check(self):
        kills = self.client.kills
        kills.documents.delete_many({"_id": {"$type": "string"}})
        documents = list(kills.documents.find({}, {"rest": 0}))
        faults = self.documents.check({it["_id"]: it["value"] for it in documents})
        counted = {it["_id"]: it["n"] for it in kills.counters.find()}
        faults += self.counters.check(counted)
        money = sum(it["money"] for it in kills.accounts.find())
        faults += compare("the money", money, ACCOUNTS * BEGIN)
        faults += compare("the count", kills.documents.estimated_document_count(), len(documents))
        for name in ("documents", "accounts", "counters"):
            if not (valid := self.client.kills.command("validate", name)).get("valid"):
                faults.append(f"validate of {name}: {str(valid)[:200]}")
        return faults + self.check_indexes(kills.documents, documents)

    @staticmethod
    def check_indexes(collection, documents):
        """Each index by itself holds what the documents do."""
        faults = []
        by_a = collections.Counter(it["a"] for it in documents)
        for hint in ("a_1", "a_1_value_-1"):
            found = collections.Counter(
                it["a"] for it in collection.find({"a": {"$gte": 0}}, {"a": 1}).hint(hint))
            faults += compare(f"index {hint}", found, by_a)
        unique = sorted(it["unique"] for it in documents)
        found = collection.find({"unique": {"$gte": ""}}, {"unique": 1, "_id": 0}).hint("unique_1")
        faults += compare("index unique_1", sorted(it["unique"] for it in found), unique)
        faults += compare("unique values", len(set(unique)), len(unique))
        for number in range(5):
            found = len(list(collection.find({"many": number}, {"_id": 1}).hint("many_1")))
            expected = sum(number in it["many"] for it in documents)
            faults += compare(f"index many_1 of {number}", found, expected)
        return faults
