"""Runs one test of the unified format: its data, its operations, and what it expects of each."""

import copy
import threading
import time

from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.errors import (BulkWriteError, ClientBulkWriteException, ConnectionFailure, OperationFailure,
                            PyMongoError)
from pymongo.read_concern import ReadConcern

from pymongo.client_session_shared import _TxnState

from entities import Entities, transaction_options
from matching import ABSENT, Matcher, require
from operations import Unsupported, bulk_result, perform

ROUTER = {"sharded", "sharded-replicaset"}

STATES = {number: name for name, number in vars(_TxnState).items() if isinstance(number, int)}


class Skipped(Exception):
    """Why a test is not run."""


class Runner:
    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.client = MongoClient(endpoint, uuidRepresentation="standard")
        self.version = version(self.client.server_info()["version"])
        self.topologies = {"replicaset"} if "setName" in self.client.admin.command("hello") else ROUTER

    def run(self, document, test):
        if "skipReason" in test:
            raise Skipped("the test says so")
        for part in (document, test):
            self.check_requirements(part.get("runOnRequirements"))
        document, test = copy.deepcopy(document), copy.deepcopy(test)
        Run(self).run(document, test)

    def check_requirements(self, requirements):
        if requirements and not any(map(self.meets, requirements)):
            raise Skipped("other servers only")

    def meets(self, requirement):
        return (version(requirement.get("minServerVersion", "0")) <= self.version
                and self.version <= version(requirement.get("maxServerVersion", "99.99.99"))
                and bool(self.topologies & set(requirement.get("topologies", self.topologies)))
                and not requirement.get("auth", False) and requirement.get("serverless") != "require"
                and not requirement.get("csfle", False))


def version(text):
    return tuple(int(part) for part in text.split("-")[0].split(".")[:2])


class Run:
    """One test while it runs."""

    def __init__(self, runner):
        self.admin = runner.client
        self.entities = Entities(runner.endpoint)
        self.matcher = Matcher(self.entities)
        self.fail_points = []
        self.threads = {}

    def run(self, document, test):
        try:
            self.insert(document.get("initialData", []))
            self.entities.create(document.get("createEntities", []))
            for operation in test["operations"]:
                self.operate(operation)
            for expectation in test.get("expectEvents", []):
                self.check_events(expectation)
            for outcome in test.get("outcome", []):
                self.check_outcome(outcome)
        finally:
            for fail_point in self.fail_points:
                self.admin.admin.command("configureFailPoint", fail_point, mode="off")
            self.entities.close()

    def insert(self, data):
        for each in data:
            database = self.admin.get_database(each["databaseName"], write_concern=WriteConcern("majority"))
            database.drop_collection(each["collectionName"])
            database.create_collection(each["collectionName"], **each.get("createOptions", {}))
            if each["documents"]:
                database[each["collectionName"]].insert_many(each["documents"])

    def operate(self, operation):
        name = operation["name"]
        if operation["object"] == "testRunner":
            return getattr(self, f"runner_{name}")(operation.get("arguments", {}))
        if name == "withTransaction":
            return self.with_transaction(operation)
        try:
            result = perform(self.entities, operation)
        except Unsupported as reason:
            raise Skipped(str(reason)) from None
        except (PyMongoError, TypeError, ValueError, StopIteration) as error:
            return self.check_error(operation, error)
        if operation.get("ignoreResultAndError"):
            return None
        require("expectError" not in operation, name, operation.get("expectError"), result)
        if "expectResult" in operation:
            self.matcher.check(operation["expectResult"], ABSENT if result is None and unset(
                operation["expectResult"]) else result, f"the result of {name}")
        if "saveResultAsEntity" in operation:
            self.entities[operation["saveResultAsEntity"]] = result
        return None

    def with_transaction(self, operation):
        arguments = dict(operation["arguments"])
        callback = arguments.pop("callback")
        settings = transaction_options(arguments)
        self.entities[operation["object"]].with_transaction(
            lambda session: [self.operate(each) for each in callback],
            read_concern=settings.read_concern, write_concern=settings.write_concern,
            read_preference=settings.read_preference, max_commit_time_ms=settings.max_commit_time_ms)

    def check_error(self, operation, error):
        if operation.get("ignoreResultAndError"):
            return
        if "expectError" not in operation:
            raise error
        check_error(self.matcher, operation["expectError"], error)

    def check_events(self, expectation):
        client = expectation["client"]
        source = self.entities.connections if expectation.get("eventType") == "cmap" else self.entities.commands
        actual = list(source[client].events)
        expected = expectation["events"]
        if expectation.get("ignoreExtraEvents"):
            actual = actual[:len(expected)]
        require(len(actual) == len(expected), f"the events of {client}", expected,
                [(kind, details.get("commandName")) for kind, details in actual])
        for number, (wanted, (kind, details)) in enumerate(zip(expected, actual)):
            ((wanted_kind, wanted_details),) = wanted.items()
            where = f"event {number} of {client}"
            require(wanted_kind == kind, where, wanted_kind, kind)
            for name in ("command", "reply"):
                if name in wanted_details:
                    self.matcher.check(wanted_details[name], details[name], f"{where}: {name}")
            for name in ("commandName", "databaseName"):
                if name in wanted_details:
                    require(wanted_details[name] == details[name], where, wanted_details[name], details[name])

    def check_outcome(self, outcome):
        collection = self.admin[outcome["databaseName"]].get_collection(
            outcome["collectionName"], read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local"))
        found = list(collection.find().sort("_id"))
        wanted = outcome["documents"]
        require(len(found) == len(wanted), "the outcome", wanted, found)
        for number, (one, other) in enumerate(zip(wanted, found)):
            self.matcher.check(one, other, f"the outcome[{number}]", root=False)

    # What tests ask of the runner itself.

    def runner_failPoint(self, arguments):
        fail_point = arguments["failPoint"]
        self.fail_points.append(fail_point["configureFailPoint"])
        self.entities[arguments["client"]].admin.command(fail_point)

    def runner_targetedFailPoint(self, arguments):
        fail_point = arguments["failPoint"]
        self.fail_points.append(fail_point["configureFailPoint"])
        self.admin.admin.command(fail_point)

    def runner_createEntities(self, arguments):
        self.entities.create(arguments["entities"])

    def runner_assertSessionTransactionState(self, arguments):
        state = self.entities[arguments["session"]]._transaction.state
        # Some versions of PyMongo number the states, others name them.
        state = getattr(state, "name", None) or STATES[state]
        state = state.lower()
        wanted = arguments["state"]
        require(wanted in (state, state.replace("committed_empty", "committed")), "the transaction", wanted, state)

    def runner_assertSessionPinned(self, arguments):
        pinned = self.entities[arguments["session"]]._transaction.pinned_address
        require(pinned is not None, "the session", "pinned", pinned)

    def runner_assertSessionUnpinned(self, arguments):
        pinned = self.entities[arguments["session"]]._transaction.pinned_address
        require(pinned is None, "the session", "not pinned", pinned)

    def runner_assertSessionDirty(self, arguments):
        require(self.entities[arguments["session"]]._server_session.dirty, "the session", "dirty", "clean")

    def runner_assertSessionNotDirty(self, arguments):
        require(not self.entities[arguments["session"]]._server_session.dirty, "the session", "clean", "dirty")

    def runner_assertSameLsidOnLastTwoCommands(self, arguments):
        one, other = self.last_lsids(arguments)
        require(one == other, "the last two sessions", one, other)

    def runner_assertDifferentLsidOnLastTwoCommands(self, arguments):
        one, other = self.last_lsids(arguments)
        require(one != other, "the last two sessions", "different ones", one)

    def last_lsids(self, arguments):
        return [command["lsid"] for command in self.entities.commands[arguments["client"]].sent[-2:]]

    def runner_assertCollectionExists(self, arguments):
        self.require_collection(arguments, True)

    def runner_assertCollectionNotExists(self, arguments):
        self.require_collection(arguments, False)

    def require_collection(self, arguments, wanted):
        names = self.admin[arguments["databaseName"]].list_collection_names()
        require((arguments["collectionName"] in names) == wanted, "the collections", arguments, names)

    def runner_assertIndexExists(self, arguments):
        self.require_index(arguments, True)

    def runner_assertIndexNotExists(self, arguments):
        self.require_index(arguments, False)

    def require_index(self, arguments, wanted):
        collection = self.admin[arguments["databaseName"]][arguments["collectionName"]]
        names = list(collection.index_information())
        require((arguments["indexName"] in names) == wanted, "the indexes", arguments, names)

    def runner_assertNumberConnectionsCheckedOut(self, arguments):
        found = self.entities.connections[arguments["client"]].checked_out
        require(found == arguments["connections"], "connections in use", arguments["connections"], found)

    def runner_wait(self, arguments):
        time.sleep(arguments["ms"] / 1000)

    def runner_runOnThread(self, arguments):
        thread = threading.Thread(target=self.operate, args=(arguments["operation"],))
        self.threads.setdefault(arguments["thread"], []).append(thread)
        thread.start()

    def runner_waitForThread(self, arguments):
        for thread in self.threads.pop(arguments["thread"], []):
            thread.join(timeout=10)


def unset(expected):
    return isinstance(expected, dict) and "$$unsetOrMatches" in expected


def check_error(matcher, expected, error):
    """Raises a mismatch if the error is another one than the test expects."""
    cause = getattr(error, "error", None) if isinstance(error, ClientBulkWriteException) else None
    cause = cause if isinstance(cause, Exception) else error
    client_side = not isinstance(cause, (OperationFailure, ConnectionFailure, ClientBulkWriteException))
    if "isClientError" in expected:
        wanted = expected["isClientError"]
        require(wanted == (client_side or isinstance(cause, ConnectionFailure)), "the error", expected, error)
    details = getattr(cause, "details", None) or {}
    if "errorContains" in expected:
        text = f"{error} {details}".lower()
        require(expected["errorContains"].lower() in text, "the error", expected["errorContains"], text)
    if "errorCode" in expected:
        require(code_of(cause) == expected["errorCode"], "the code", expected["errorCode"], code_of(cause))
    if "errorCodeName" in expected:
        require(details.get("codeName") == expected["errorCodeName"], "the code", expected, details)
    has_label = getattr(cause, "has_error_label", lambda label: False)
    for label in expected.get("errorLabelsContain", []):
        require(has_label(label), "the labels", label, getattr(cause, "_error_labels", None))
    for label in expected.get("errorLabelsOmit", []):
        require(not has_label(label), "the labels", f"not {label}", getattr(cause, "_error_labels", None))
    if "errorResponse" in expected:
        matcher.check(expected["errorResponse"], details, "the response")
    check_partial(matcher, expected, error)


def code_of(error):
    if isinstance(error, BulkWriteError):
        failures = error.details.get("writeErrors") or error.details.get("writeConcernErrors") or [{}]
        return failures[0].get("code")
    # Errors of a server that is no primary have their code in the answer alone.
    return getattr(error, "code", None) or (getattr(error, "details", None) or {}).get("code")


def chosen(found, wanted):
    return {name: found[name] for name in wanted if name in found}


def bulk_counts(result):
    return [count for name, count in bulk_result(result).items() if name.endswith("Count")]


def check_partial(matcher, expected, error):
    """What a bulk write did before it failed."""
    if isinstance(error, ClientBulkWriteException):
        for name, found in (("writeErrors", error.write_errors), ("writeConcernErrors", error.write_concern_errors)):
            wanted = expected.get(name)
            said = lambda each: {"code": each.get("code"), "message": each.get("errmsg")}
            if isinstance(wanted, dict):
                # Only what the test names is compared; the server may say more.
                found = {str(each["idx"]): chosen(said(each), wanted.get(str(each["idx"]), {})) for each in found}
            elif wanted is not None:
                found = [chosen(said(each), one) for each, one in zip(found, wanted)]
            if wanted is not None:
                matcher.check(wanted, found, name)
        if "expectResult" in expected:
            partial = error.partial_result
            if partial is not None and not any(bulk_counts(partial)):
                # PyMongo has a result even if nothing was done.
                partial = None
            matcher.check(expected["expectResult"], ABSENT if partial is None else bulk_result(partial),
                          "the partial result")
    elif "expectResult" in expected and isinstance(error, BulkWriteError):
        names = {"nInserted": "insertedCount", "nMatched": "matchedCount", "nModified": "modifiedCount",
                 "nRemoved": "deletedCount", "nUpserted": "upsertedCount"}
        partial = {word: error.details[name] for name, word in names.items()}
        partial["upsertedIds"] = {str(each["index"]): each["_id"] for each in error.details["upserted"]}
        matcher.check(expected["expectResult"], partial, "the partial result")
