"""azure-data-tables: entities, and groups of them that change together."""

import collections
import random

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient, UpdateMode

from known import GONE, Values, compare

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
PARTITIONS = 7
KEYS = 300
GROUPS = 20
MEMBERS = 5


class Part:
    def __init__(self, tally):
        self.tally = tally
        self.entities = Values(tally, "table entity")
        self.groups = Values(tally, "table group")
        self.service = self.table = None

    def connect(self, place, _patience_ms):
        self.service = TableServiceClient.from_connection_string(
            f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};"
            f"TableEndpoint=http://{place}/devstoreaccount1",
            retry_total=0, connection_timeout=20, read_timeout=60)
        self.table = self.service.get_table_client("kills")

    def set_up(self):
        self.service.create_table("kills")

    def disconnect(self):
        self.service.close()

    def steps(self, worker, workers):
        chance = random.Random(self.tally.number())
        own = range(worker, KEYS, workers)
        while True:
            kind, number, value = chance.random(), chance.choice(own), self.tally.number()
            place = (f"p{number % PARTITIONS}", f"r{number:05}")
            if kind < 0.65:
                entity = {"PartitionKey": place[0], "RowKey": place[1], "v": value}
                self.entities.write(place, value, lambda: self.table.upsert_entity(
                    entity, mode=UpdateMode.REPLACE))
            elif kind < 0.8:
                self.entities.write(place, GONE, lambda: self.delete(place))
            else:
                group = f"g{worker + workers * chance.randrange(GROUPS)}"
                members = [("upsert", {"PartitionKey": group, "RowKey": str(row), "v": value},
                            {"mode": UpdateMode.REPLACE}) for row in range(MEMBERS)]
                self.groups.write(group, value, lambda: self.table.submit_transaction(members))
            yield

    def delete(self, place):
        try:
            self.table.delete_entity(*place)
        except ResourceNotFoundError:
            pass

    def check(self):
        entities = list(self.table.list_entities(results_per_page=1000))
        places = [(it["PartitionKey"], it["RowKey"]) for it in entities]
        faults = compare("the order of entities", places, sorted(places))
        single = {(it["PartitionKey"], it["RowKey"]): it["v"] for it in entities
                  if it["PartitionKey"].startswith("p")}
        faults += self.entities.check(single)
        groups = collections.defaultdict(list)
        for entity in entities:
            if entity["PartitionKey"].startswith("g"):
                groups[entity["PartitionKey"]].append(entity["v"])
        for group, values in groups.items():
            faults += compare(f"the members of {group}", values, values[:1] * MEMBERS)
        return faults + self.groups.check({group: values[0] for group, values in groups.items()})
