"""A replica made of the changes over HTTP, beside 16 writers, splits, truncates and kills.

    python replica.py mongo STATE begin 127.0.0.1:8080
    python replica.py mongo STATE go-on 127.0.0.1:8080
    python replica.py mongo STATE end 127.0.0.1:8080

Each run writes and follows until its server is killed; the last one until it has done enough, and
then compares. What was followed is kept in the file STATE, with the token behind it. It prints
`following` when it has followed enough to be killed, and a line of JSON for every case.
"""

import argparse
import json
import os
import random
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

import bson
from apis import APIS
from azure.data.tables import UpdateMode
from bson import Int64, json_util
from console import Console, path
from pymongo import ReplaceOne
from report import Report

CONTAINER = "replica"
WRITERS = 16
KEYS = 40
ROWS = 8
CHANGES_BEFORE_A_KILL = 2000
CHANGES_AT_THE_END = 4000
PATIENCE = 60


class MongoSource:
    """Documents, changed in every way that has an entry of its own kind."""

    def __init__(self, api, is_new, _is_killed):
        self.api = api
        if is_new:
            api.create(CONTAINER, None)
        self.rows = api.db[CONTAINER]

    def write(self, dice, key, row):
        query = {"_id": f"{key}/{row}", "key": key}
        step = dice.randrange(6)
        if step == 0:
            self.rows.delete_one(query)
        elif step == 1:
            self.rows.update_one(query, {"$inc": {"count": Int64(1)}, "$set": {"half": 0.5}})
        elif step == 2:
            self.rows.update_one(query, {"$push": {"list": dice.random()}}, upsert=True)
        elif step == 3:
            with self.api.client.start_session() as session, session.start_transaction():
                for other in range(3):
                    place = {"_id": f"{key}/{other}", "key": key}
                    self.rows.replace_one(place, place | {"together": dice.random()}, upsert=True,
                                          session=session)
        elif step == 4:
            self.rows.bulk_write([ReplaceOne(query, query | {"n": row}, upsert=True)])
        else:
            self.rows.replace_one(query, query | {"text": "ä\"\n" * row}, upsert=True)

    def truncate(self):
        self.rows.delete_many({"key": {"$gt": "3"}})

    def items(self):
        return {name_of({"key": it["key"], "_id": it["_id"]}): bson.encode(it)
                for it in self.rows.find()}

    def read(self, item):
        return bson.encode(json_util.loads(json.dumps(item), json_options=PLAIN))


PLAIN = json_util.JSONOptions(tz_aware=False)


class CqlSource:
    """Rows, with static columns, collections and deletes of ranges and partitions.

    A row that is written with an older time than such a delete is taken away behind its write. A
    server that is killed in between leaves it hidden, and the feed knows of the write only: so
    these deletes are for the run that is not killed.
    """

    def __init__(self, api, is_new, is_killed):
        self.api = api
        self.deletes_many = not is_killed
        if is_new:
            api.session.execute(f"CREATE TABLE {CONTAINER} (key text, row int, shared text static, "
                                "text text, tags set<text>, PRIMARY KEY (key, row))")

    def write(self, dice, key, row):
        do = self.api.execute
        step = dice.randrange(8)
        if step == 0:
            do(f"DELETE FROM {CONTAINER} WHERE key = ? AND row = ?", (key, row))
        elif step == 1 and self.deletes_many:
            do(f"DELETE FROM {CONTAINER} WHERE key = ? AND row > ?", (key, row))
        elif step == 2 and row == 0 and self.deletes_many:
            do(f"DELETE FROM {CONTAINER} WHERE key = ?", (key,))
        elif step == 3:
            do(f"UPDATE {CONTAINER} SET shared = ? WHERE key = ?", (str(dice.random()), key))
        elif step == 4:
            do(f"UPDATE {CONTAINER} SET tags = tags + ? WHERE key = ? AND row = ?",
               ({str(dice.randrange(5))}, key, row))
        else:
            do(f"INSERT INTO {CONTAINER} (key, row, text) VALUES (?, ?, ?)",
               (key, row, "ä\"\n" * row))

    def truncate(self):
        self.api.session.execute(f"TRUNCATE {CONTAINER}")

    def items(self):
        found = {}
        for (text,) in self.api.session.execute(f"SELECT JSON * FROM {CONTAINER}"):
            row = json.loads(text)
            shared = row.pop("shared")
            if shared is not None:
                found[name_of({"key": row["key"]})] = {"key": row["key"], "shared": shared}
            if row["row"] is not None:
                found[name_of({"key": row["key"], "row": row["row"]})] = row
        return found

    def read(self, item):
        return item


class TableSource:
    """Entities, whose etags are compared too."""

    def __init__(self, api, is_new, _is_killed):
        self.api = api
        if is_new:
            api.create(CONTAINER, None)
        self.table = api.service.get_table_client(CONTAINER)

    def write(self, dice, key, row):
        place = {"PartitionKey": key, "RowKey": str(row)}
        step = dice.randrange(5)
        if step == 0:
            self.table.delete_entity(key, str(row))
        elif step == 1:
            self.table.upsert_entity(place | {"more": dice.random()}, mode=UpdateMode.MERGE)
        elif step == 2:
            self.table.submit_transaction(
                [("upsert", {"PartitionKey": key, "RowKey": str(it), "together": row})
                 for it in range(3)])
        else:
            self.table.upsert_entity(place | {"text": "ä\"\n" * row}, mode=UpdateMode.REPLACE)

    def truncate(self):
        for entity in list(self.table.query_entities("PartitionKey gt '3'", results_per_page=100)):
            self.table.delete_entity(entity)

    def items(self):
        return {name_of({"PartitionKey": it["PartitionKey"], "RowKey": it["RowKey"]}):
                dict(it) | {"etag": it.metadata["etag"]} for it in self.table.list_entities()}

    def read(self, item):
        plain = {name: value for name, value in item.items()
                 if "odata" not in name and name != "Timestamp"}
        return plain | {"etag": item["odata.etag"]}


SOURCES = {"mongo": MongoSource, "cql": CqlSource, "table": TableSource}


def name_of(key):
    return json.dumps(key, sort_keys=True)


class Replica:
    """Items as the changes say they are."""

    def __init__(self, address, place, state):
        self.changes = f"http://{address}/{path(*place)}/changes"
        self.file = state
        self.token, self.items = None, {}
        self.open = []  # of a transaction whose end has not come
        self.count = 0
        self.operations = set()
        self.stops = False

    def begin(self):
        for line in self.lines("mode=all", 5):
            self.token = line.get("token", self.token)

    def load(self):
        with open(self.file, encoding="utf-8") as file:
            self.token, self.items = json.load(file)

    def save(self):
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump([self.token, self.items], file)

    def lines(self, parameters, timeout):
        with urllib.request.urlopen(f"{self.changes}?{parameters}", timeout=timeout) as answer:
            for line in answer:
                yield json.loads(line)

    def follow(self):
        """Reads until it is told to stop, or nothing listens any more."""
        while not self.stops:
            self.open = []
            try:
                for line in self.lines(f"after={self.token}&follow=true&heartbeat=1s", 10):
                    self.take(line)
                    if self.stops:
                        return
            except urllib.error.HTTPError:
                raise
            except (OSError, ValueError) as error:
                # The end of a line may be missing when the server is killed.
                if is_refused(error):
                    return

    def catch_up(self):
        self.open = []
        more = True
        while more:
            for line in self.lines(f"after={self.token}", 30):
                self.take(line)
                more = line.get("has_more", True)

    def take(self, line):
        if "error" in line:
            raise RuntimeError(line["error"])
        if "operation" in line:
            self.open.append(line)
        if "token" in line:
            for change in self.open:
                self.apply(change)
            self.open = []
            self.token = line["token"]

    def apply(self, change):
        self.count += 1
        self.operations.add(change["operation"])
        if change["operation"] == "truncated":
            self.items = {}
        elif "key" in change and "item" in change:
            self.items[name_of(change["key"])] = change["item"]
        elif "key" in change:
            self.items.pop(name_of(change["key"]), None)


def is_refused(error):
    reason = getattr(error, "reason", error)
    return isinstance(reason, ConnectionRefusedError)


class Writers:
    def __init__(self, source):
        self.source = source
        self.stops = False
        self.count = 0
        self.threads = [threading.Thread(target=self.work, args=(number,), daemon=True)
                        for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        dice = random.Random(f"{number} {time.time()}")
        while not self.stops:
            try:
                self.source.write(dice, str(dice.randrange(KEYS)), dice.randrange(ROWS))
                self.count += 1
            except Exception:  # refused as a conflict, or the server was killed
                time.sleep(0.01)

    def stop(self):
        self.stops = True
        for thread in self.threads:
            thread.join(PATIENCE)


def disturb(console, place, source, dice):
    """A split, a merge or a truncate."""
    partitions = [it["id"] for it in console.container(*place)["partitions"]]
    step = dice.randrange(3)
    try:
        if step == 0 and len(partitions) < 8:
            console.change("split", {"partition": dice.choice(partitions)}, *place)
        elif step == 1 and len(partitions) > 1:
            console.change("merge", {"partition": partitions[0]}, *place)
        else:
            source.truncate()
    except Exception:  # as above
        time.sleep(0.01)


def run(options, report):
    console = Console(options.endpoint)
    api = APIS[options.api](console.listeners()[options.api], retries=True)
    source = SOURCES[options.api](api, options.phase == "begin", options.phase != "end")
    place = (options.api, api.database, CONTAINER)
    replica = Replica(options.endpoint, place, options.state)
    if options.phase == "begin":
        replica.begin()
        replica.save()
    else:
        replica.load()
    failures = []

    def follow():
        try:
            replica.follow()
        except Exception:
            failures.append(traceback.format_exc(limit=-3))

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    writers = Writers(source)
    dice = random.Random()
    is_last = options.phase == "end"
    enough = CHANGES_AT_THE_END if is_last else CHANGES_BEFORE_A_KILL
    end = time.monotonic() + PATIENCE
    while replica.count < enough and follower.is_alive() and time.monotonic() < end:
        disturb(console, place, source, dice)
        time.sleep(0.2)
    report.case("changes are followed", replica.count >= enough and not failures,
                f"{replica.count} of {enough}, {writers.count} written: {failures}")
    if is_last:
        writers.stop()
        replica.stops = True
        follower.join(PATIENCE)
        replica.catch_up()
        compare(source, replica, report)
        report.case("every kind of change came", len(replica.operations) >= 3, replica.operations)
    else:
        print("following", flush=True)
        follower.join(PATIENCE)
        report.case("the server was killed", not follower.is_alive(), "it still answers")
        report.case("nothing else failed", not failures, failures)
        replica.save()


def compare(source, replica, report):
    expected = source.items()
    found = {name: source.read(item) for name, item in replica.items.items()}
    wrong = [name for name in expected.keys() | found.keys()
             if expected.get(name) != found.get(name)]
    report.case("the replica equals the source", not wrong and len(expected) > 0,
                f"{len(wrong)} of {len(expected)}: " +
                "; ".join(f"{name}: {expected.get(name)!r} and not {found.get(name)!r}"
                          for name in wrong[:3]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("api", choices=sorted(SOURCES))
    parser.add_argument("state", help="the file that keeps the replica between runs")
    parser.add_argument("phase", choices=["begin", "go-on", "end"])
    parser.add_argument("endpoint", help="the console's address")
    options = parser.parse_args()
    report = Report(area=f"replica of {options.api}")
    report.check("it runs to its end", None, lambda: run(options, report))
    # Drivers that look for a server that is gone would go on.
    sys.stdout.flush()
    os._exit(0 if report.finish() else 1)


if __name__ == "__main__":
    main()
