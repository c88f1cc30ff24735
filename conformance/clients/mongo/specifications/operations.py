"""The operations of the unified test format, as PyMongo does them."""

import re
import time

from pymongo import (DeleteMany, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany,
                     UpdateOne)
from pymongo.change_stream import ChangeStream
from pymongo.results import (BulkWriteResult, ClientBulkWriteResult, DeleteResult, InsertManyResult,
                             InsertOneResult, UpdateResult)

from entities import concerns

# How long an event may take.
PATIENCE = 10

MODELS = {"insertOne": InsertOne, "updateOne": UpdateOne, "updateMany": UpdateMany, "replaceOne": ReplaceOne,
          "deleteOne": DeleteOne, "deleteMany": DeleteMany}

# What PyMongo takes under another name than the words of the test, put in its style.
NAMES = {"bypassDocumentValidation": "bypass_document_validation", "fieldName": "key",
         "maxTimeMS": "maxTimeMS", "maxCommitTimeMS": "max_commit_time_ms", "maxAwaitTimeMS": "maxAwaitTimeMS", "allowDiskUse": "allowDiskUse",
         "batchSize": "batchSize", "bypassEmptyTsReplacement": "bypassEmptyTsReplacement"}


class Unsupported(Exception):
    """An operation that the driver does not have, or that is no part of this walk."""


def snake(name):
    return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name)


def ordered(value):
    return list(value.items()) if isinstance(value, dict) else value


def perform(entities, operation):
    """Does one operation and returns its result in the words of the test format."""
    target, name = entities[operation["object"]], operation["name"]
    if "rawData" in operation.get("arguments", {}):
        raise Unsupported("PyMongo has no rawData")
    arguments = prepared(entities, operation.get("arguments", {}))
    if name.startswith(("findOneAnd", "aggregate")) and "bypass_document_validation" in arguments:
        arguments["bypassDocumentValidation"] = arguments.pop("bypass_document_validation")
    if name in ("updateOne", "replaceOne") and "sort" in arguments:
        arguments["sort"] = dict(arguments["sort"])
    special = globals().get(f"do_{snake(name)}")
    if special:
        return special(target, arguments)
    method = getattr(target, snake(name), None)
    if method is None or not callable(method):
        raise Unsupported(f"PyMongo has no {name} of this object")
    return worded(method(**arguments))


def prepared(entities, arguments):
    """Arguments as PyMongo takes them in most of its methods."""
    settings = {}
    for name, value in arguments.items():
        if name == "session":
            settings["session"] = entities[value]
        elif name in ("readConcern", "writeConcern", "readPreference"):
            settings |= concerns({name: value})
        elif name == "returnDocument":
            settings["return_document"] = ReturnDocument.AFTER if value == "After" else ReturnDocument.BEFORE
        elif name == "sort":
            settings["sort"] = ordered(value)
        elif name == "hint":
            settings["hint"] = ordered(value)
        elif name in ("requests", "models"):
            settings[name] = [model(each) for each in value]
        else:
            settings[NAMES.get(name, snake(name))] = value
    return settings


def model(request):
    ((kind, options),) = request.items()
    settings = {snake(name): value for name, value in options.items()}
    if "hint" in settings:
        settings["hint"] = ordered(settings["hint"])
    return MODELS[kind](**settings)


def worded(result):
    """A result of PyMongo in the words of the test format."""
    if isinstance(result, (BulkWriteResult, ClientBulkWriteResult)):
        return bulk_result(result)
    if isinstance(result, InsertOneResult):
        return {"insertedId": result.inserted_id}
    if isinstance(result, InsertManyResult):
        return {"insertedIds": {str(at): each for at, each in enumerate(result.inserted_ids)}}
    if isinstance(result, DeleteResult):
        return {"deletedCount": result.deleted_count} if result.acknowledged else {"acknowledged": False}
    if isinstance(result, UpdateResult):
        return update_result(result)
    if hasattr(result, "to_list"):
        return result.to_list()
    return result


def update_result(result):
    if not result.acknowledged:
        return {"acknowledged": False}
    answer = {"matchedCount": result.matched_count, "modifiedCount": result.modified_count,
              "upsertedCount": 0 if result.upserted_id is None else 1}
    return answer if result.upserted_id is None else answer | {"upsertedId": result.upserted_id}


def bulk_result(result):
    if not result.acknowledged:
        return {"acknowledged": False}
    answer = {f"{name}Count": getattr(result, f"{name}_count")
              for name in ("deleted", "inserted", "matched", "modified", "upserted")}
    if isinstance(result, BulkWriteResult):
        return answer | {"upsertedIds": {str(at): each for at, each in (result.upserted_ids or {}).items()}}
    if not result.has_verbose_results:
        return answer
    # What a single update counts as upserted is no part of the results within a bulk write.
    verbose = lambda found: {str(at): {name: value for name, value in worded(each).items()
                                       if name != "upsertedCount"} for at, each in found.items()}
    return answer | {"insertResults": verbose(result.insert_results), "updateResults": verbose(
        result.update_results), "deleteResults": verbose(result.delete_results)}


def do_bulk_write(collection, arguments):
    return worded(collection.bulk_write(**arguments))


def do_client_bulk_write(client, arguments):
    return worded(client.bulk_write(**arguments))


def do_find(collection, arguments):
    return find_cursor(collection, arguments).to_list()


def find_cursor(collection, arguments):
    names = {"maxTimeMS": "max_time_ms", "allowDiskUse": "allow_disk_use", "batchSize": "batch_size"}
    return collection.find(**{names.get(name, name): value for name, value in arguments.items()})


def do_find_one(collection, arguments):
    return collection.find_one(**arguments)


def do_create_find_cursor(collection, arguments):
    return find_cursor(collection, arguments)


def do_aggregate(target, arguments):
    return target.aggregate(**arguments).to_list()


def do_count(target, arguments):
    raise Unsupported("PyMongo has no count")


def do_map_reduce(target, arguments):
    raise Unsupported("mapReduce needs JavaScript")


def do_create_change_stream(target, arguments):
    settings = {"maxAwaitTimeMS": "max_await_time_ms", "batchSize": "batch_size"}
    return target.watch(**{settings.get(name, name): value for name, value in arguments.items()})


def do_list_search_indexes(target, arguments):
    raise Unsupported("search indexes are Atlas's")


do_create_search_index = do_create_search_indexes = do_update_search_index = do_list_search_indexes
do_drop_search_index = do_list_search_indexes


def do_distinct(collection, arguments):
    return collection.distinct(**arguments)


def do_estimated_document_count(collection, arguments):
    return collection.estimated_document_count(**arguments)


def do_list_databases(client, arguments):
    return client.list_databases(**arguments).to_list()


do_list_database_objects = do_list_databases


def do_list_collections(database, arguments):
    filtered = {"filter": arguments.pop("filter", {})} | arguments
    return database.list_collections(**filtered).to_list()


do_list_collection_objects = do_list_collections


def do_list_indexes(collection, arguments):
    arguments.pop("batchSize", None)
    return collection.list_indexes(**arguments).to_list()


def do_list_index_names(collection, arguments):
    return [index["name"] for index in collection.list_indexes(**arguments)]


def do_create_index(collection, arguments):
    return collection.create_index(ordered(arguments.pop("keys")), **arguments)


def do_drop_index(collection, arguments):
    return collection.drop_index(arguments.pop("name"), **arguments)


def do_create_collection(database, arguments):
    name = arguments.pop("collection")
    options = {"expireAfterSeconds" if key == "expire_after_seconds" else camel(key): value
               for key, value in arguments.items()}
    if "viewOn" in options or "pipeline" in options:
        options["pipeline"] = options.get("pipeline", [])
    database.create_collection(name, check_exists=False, **options)


def camel(name):
    return re.sub("_([a-z])", lambda found: found[1].upper(), name) if name != "write_concern" else name


def do_drop_collection(database, arguments):
    database.drop_collection(arguments.pop("collection"), **arguments)


def do_modify_collection(database, arguments):
    name = arguments.pop("collection")
    return database.command("collMod", name, **{camel(key): value for key, value in arguments.items()})


def do_rename(collection, arguments):
    collection.rename(arguments["to"], dropTarget=arguments.get("drop_target", False))


def do_run_command(database, arguments):
    arguments.pop("command_name", None)
    return database.command(arguments.pop("command"), **arguments)


def do_run_cursor_command(database, arguments):
    return command_cursor(database, arguments).to_list()


def do_create_command_cursor(database, arguments):
    return command_cursor(database, arguments)


def command_cursor(database, arguments):
    settings = {name: arguments[name] for name in ("session", "read_preference") if name in arguments}
    cursor = database.cursor_command(arguments["command"], max_await_time_ms=arguments.get("maxTimeMS"),
                                     comment=arguments.get("comment"), **settings)
    if "batchSize" in arguments:
        cursor.batch_size(arguments["batchSize"])
    return cursor


def do_iterate_until_document_or_error(cursor, arguments):
    if not isinstance(cursor, ChangeStream):
        return next(cursor)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        # A stream that does not come to the expected event waits for ever.
        event = cursor.try_next()
        if event is not None:
            return event
    raise TimeoutError(f"no event within {PATIENCE} seconds")


def do_iterate_once(cursor, arguments):
    return cursor.try_next()


def do_start_transaction(session, arguments):
    session.start_transaction(**arguments)


def do_download(bucket, arguments):
    return bucket.open_download_stream(arguments["id"]).read()


def do_download_by_name(bucket, arguments):
    return bucket.open_download_stream_by_name(arguments["filename"]).read()


def do_get_snapshot_time(session, arguments):
    return session.snapshot_time if hasattr(session, "snapshot_time") else session._snapshot_time


def do_end_session(session, arguments):
    session.end_session()
