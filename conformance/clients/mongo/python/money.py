"""Money moves between accounts through two servers on one database; its sum never changes.

    python money.py mongodb://127.0.0.1:27017 --other mongodb://127.0.0.1:27018 --sums 10000

The exit code is 0 if every sum was right.
"""

import argparse
import itertools
import random
import sys
import threading
import uuid

from pymongo import MongoClient

ACCOUNTS = 20
BALANCE = 1000
SUM = [{"$group": {"_id": None, "sum": {"$sum": "$balance"}}}]


class Bank:
    """Two collections of accounts, one of them spread over partitions by hash."""

    def __init__(self, endpoints, sums):
        self.clients = [MongoClient(endpoint) for endpoint in endpoints]
        self.name = f"bank_{uuid.uuid4().hex[:12]}"
        self.sums_left, self.lock = itertools.count(sums, -1), threading.Lock()
        self.stop = threading.Event()
        self.wrong, self.failed, self.moved = [], [], [0] * len(endpoints)
        admin = self.clients[0].admin
        admin.command("shardCollection", f"{self.name}.right", key={"_id": "hashed"})
        for side in ("left", "right"):
            accounts = [{"_id": number, "balance": BALANCE} for number in range(ACCOUNTS)]
            self.clients[1][self.name][side].insert_many(accounts)

    def move(self, server):
        """Transfers until told to stop."""
        client = self.clients[server]
        database = client[self.name]

        def transfer(session):
            one, other = random.sample(["left", "right"], 2)
            amount = random.randrange(1, 10)
            for side, change in ((one, -amount), (other, amount)):
                account = {"_id": random.randrange(ACCOUNTS)}
                database[side].update_one(account, {"$inc": {"balance": change}}, session=session)

        with client.start_session() as session:
            while not self.stop.is_set():
                session.with_transaction(transfer)
                with self.lock:
                    self.moved[server] += 1

    def read(self, server):
        """Sums all accounts, in a transaction of its own each time."""
        client = self.clients[server]
        database = client[self.name]
        with client.start_session() as session:
            while next(self.sums_left) > 0:
                with session.start_transaction():
                    both = [next(database[side].aggregate(SUM, session=session))["sum"]
                            for side in ("left", "right")]
                if sum(both) != 2 * ACCOUNTS * BALANCE:
                    self.wrong.append(both)

    def run(self, work, count):
        def noted(server):
            try:
                work(server)
            except Exception as error:  # whatever it is, the test must hear of it
                self.failed.append(repr(error))

        servers = itertools.islice(itertools.cycle(range(len(self.clients))), count)
        threads = [threading.Thread(target=noted, args=(server,)) for server in servers]
        for thread in threads:
            thread.start()
        return threads


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--other", required=True)
    parser.add_argument("--sums", type=int, default=10000)
    options = parser.parse_args()
    bank = Bank([options.endpoint, options.other], options.sums)
    writers = bank.run(bank.move, 4)
    for reader in bank.run(bank.read, 4):
        reader.join()
    bank.stop.set()
    for writer in writers:
        writer.join()
    bank.clients[0].drop_database(bank.name)
    print(f"{options.sums} sums read during {bank.moved} transfers, "
          f"{len(bank.wrong)} wrong: {bank.wrong[:5]}, errors: {bank.failed}")
    sys.exit(0 if min(bank.moved) > 0 and not bank.wrong and not bank.failed else 1)


if __name__ == "__main__":
    main()
