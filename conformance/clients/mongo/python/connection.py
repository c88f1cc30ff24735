"""What a client asks before anything else, and what tools ask now and then."""

from bson import SON

from checks import Refused
from report import Matches


def walk(place, report):
    admin = place.client.admin
    report.check("hello: a router that takes writes", ("isdbgrid", True, 16777216, 48000000, 100000),
                 lambda: (lambda hello: (hello["msg"], hello["isWritablePrimary"],
                                         hello["maxBsonObjectSize"], hello["maxMessageSizeBytes"],
                                         hello["maxWriteBatchSize"]))(admin.command("hello")))
    report.check("hello: sessions last half an hour", 30,
                 lambda: admin.command("hello")["logicalSessionTimeoutMinutes"])
    report.check("hello: the old name has the old field", True,
                 lambda: admin.command("isMaster")["ismaster"])
    report.check("ping", {"ok": 1.0}, lambda: answer(admin.command("ping")))
    report.check("buildInfo: version 8", Matches("8.*", lambda info: info["version"].startswith("8.")
                                                 and info["versionArray"][0] == 8),
                 lambda: admin.command("buildInfo"))
    report.check("hostInfo", Matches("a system", lambda info: info["system"]["numCores"] > 0),
                 lambda: admin.command("hostInfo"))
    report.check("serverStatus counts connections", True,
                 lambda: admin.command("serverStatus")["connections"]["current"] > 0)
    report.check("connectionStatus", list,
                 lambda: type(admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]))
    report.check("whatsmyuri", Matches("an address", lambda answer: ":" in answer["you"]),
                 lambda: admin.command("whatsmyuri"))
    report.check("getLog: startup warnings", list,
                 lambda: type(admin.command("getLog", "startupWarnings")["log"]))
    report.check("getParameter: feature version", "8.0", lambda: admin.command(
        SON([("getParameter", 1), ("featureCompatibilityVersion", 1)])
    )["featureCompatibilityVersion"]["version"])
    report.check("getCmdLineOpts", list, lambda: type(admin.command("getCmdLineOpts")["argv"]))
    report.check("listCommands knows find", True,
                 lambda: "find" in admin.command("listCommands")["commands"])
    report.check("an unknown command", Refused(59), lambda: admin.command("frobnicate"))
    report.check("an unknown field", Refused(40415),
                 lambda: place.database.command("find", "c", nonsense=1))
    report.check("a missing field", Refused(40414), lambda: place.database.command("killCursors", "c"))
    report.check("a field of a wrong type", Refused(14),
                 lambda: place.database.command("find", "c", filter=7))
    report.check("a namespace that cannot be", Refused(73),
                 lambda: place.database.command("insert", "", documents=[{}]))


def answer(reply):
    """Without what only sessions and clusters need."""
    return {name: reply[name] for name in reply if name not in ("$clusterTime", "operationTime")}
