"""Sharded collections: placed by the hash of a key, moved to another key while in use."""

from checks import Refused
from report import Matches


def walk(place, report):
    admin, name = place.client.admin, place.name
    report.check("enableSharding", 1.0, lambda: admin.command("enableSharding", name)["ok"])
    report.check("shardCollection: its answer", (f"{name}.people", "ShardCollectionResponse"), lambda: (
        lambda answer: (answer["collectionsharded"], answer["_t"]))(admin.command(
            "shardCollection", f"{name}.people", key={"country": "hashed"})))
    people = place.database["people"]
    people.insert_many({"_id": n, "country": f"c{n % 7}", "city": n % 50} for n in range(700))
    report.check("the same key again is no error", 1.0, lambda: admin.command(
        "shardCollection", f"{name}.people", key={"country": "hashed"})["ok"])
    report.check("another key", Refused(23), lambda: admin.command(
        "shardCollection", f"{name}.people", key={"city": "hashed"}))
    report.check("a document without the key", Refused(61), lambda: people.insert_one({"_id": "x"}))
    report.check("a query by the key finds all", 100, lambda: people.count_documents({"country": "c3"}))
    report.check("a query by the key asks one partition", ("SINGLE_SHARD", 1, 100), lambda: one_shard(place))
    report.check("config.collections", {"country": "hashed"},
                 lambda: place.client.config.collections.find_one({"_id": f"{name}.people"})["key"])
    report.check("config.chunks", Matches("chunks that cover the ring", lambda chunks: len(chunks) >= 1),
                 lambda: list(place.client.config.chunks.find({"uuid": place.client.config.collections.find_one(
                     {"_id": f"{name}.people"})["uuid"]})))
    report.check("$shardedDataDistribution counts every document", 700, lambda: distribution(admin, name))
    report.check("a unique index needs the key", Refused(67), lambda: people.create_index("city", unique=True))
    report.check("a unique index with the key", "country_1_city_1__id_1", lambda: people.create_index(
        [("country", 1), ("city", 1), ("_id", 1)], unique=True))
    report.check("reshardCollection", 1.0, lambda: admin.command(
        "reshardCollection", f"{name}.people", key={"city": "hashed"})["ok"])
    report.check("after it, the key is the new one", ({"city": "hashed"}, 700, 14), lambda: (
        place.client.config.collections.find_one({"_id": f"{name}.people"})["key"], people.count_documents({}),
        people.count_documents({"city": 7})))
    report.check("reshardCollection: what is not sharded", Refused(118), lambda: (place.database.create_collection(
        "plain"), admin.command("reshardCollection", f"{name}.plain", key={"a": "hashed"}))[1])
    report.check("reshardCollection: a key that a unique index lacks", Refused(72), lambda: admin.command(
        "reshardCollection", f"{name}.people", key={"nowhere": "hashed"}))
    people.drop_index("country_1_city_1__id_1")
    report.check("reshardCollection: a key that is missing", Refused(61), lambda: admin.command(
        "reshardCollection", f"{name}.people", key={"nowhere": "hashed"}))
    report.check("a refused one leaves all as it was", 700, lambda: people.count_documents({}))
    report.check("from any database, verbatim as Microsoft writes it", 1.0, lambda: place.database.command(
        {"shardCollection": f"{name}.verbatim", "key": {"a": "hashed"}})["ok"])
    report.check("unshardCollection", 700, lambda: (admin.command(
        "unshardCollection", f"{name}.people"), people.count_documents({}))[1])
    report.check("listShards", Matches("shards", lambda shards: len(shards) >= 1),
                 lambda: admin.command("listShards")["shards"])
    report.check("balancerStatus", False, lambda: admin.command("balancerStatus")["inBalancerRound"])


def one_shard(place):
    answer = place.database.command("explain", {"find": "people", "filter": {"country": "c3"}},
                                    verbosity="executionStats")
    winning = answer["queryPlanner"]["winningPlan"]
    return winning["stage"], len(winning["shards"]), answer["executionStats"]["totalDocsExamined"]


def distribution(admin, name):
    for each in admin.aggregate([{"$shardedDataDistribution": {}}]):
        if each["ns"] == f"{name}.people":
            return sum(shard["numOwnedDocuments"] for shard in each["shards"])
