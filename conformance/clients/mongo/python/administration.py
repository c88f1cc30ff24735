"""Users, roles, running operations and request charges."""


from checks import Refused
from report import Matches


def walk(place, report):
    database = place.database
    create = lambda name, **options: database.command("createUser", name, pwd="sécret", **options)
    report.check("createUser", 1.0, lambda: create("reader", roles=["read"])["ok"])
    report.check("createUser: again", Refused(51003), lambda: create("reader", roles=[]))
    report.check("createUser: no such role", Refused(31), lambda: create("x", roles=["nonsense"]))
    report.check("usersInfo", [("reader", [{"role": "read", "db": place.name}])], lambda: [
        (user["user"], user["roles"]) for user in database.command("usersInfo", "reader")["users"]])
    report.check("usersInfo: no password", False,
                 lambda: "credentials" in database.command("usersInfo", "reader")["users"][0])
    c = place.collection({"_id": 1})
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-1"):
        report.check(f"{mechanism}: the right password", 1, lambda: asked(place, c, "sécret", mechanism))
        report.check(f"{mechanism}: a wrong password", Refused(18), lambda: asked(place, c, "wrong", mechanism))
    if place.has_logins:
        report.check("a reader does not write", Refused(13), lambda: place.connect_as(
            "reader", "sécret", source=place.name)[place.name][c.name].insert_one({}))
    report.check("grantRolesToUser", True, lambda: (database.command(
        "grantRolesToUser", "reader", roles=["readWrite"]), place.connect_as("reader", "sécret", source=place.name)[
            place.name][c.name].insert_one({}).acknowledged)[1])
    report.check("updateUser: a new password", 1, lambda: (database.command(
        "updateUser", "reader", pwd="new"), asked(place, c, "new", "SCRAM-SHA-256"))[1])
    report.check("dropUser", Refused(18), lambda: (database.command("dropUser", "reader"), asked(
        place, c, "new", "SCRAM-SHA-256"))[1])
    report.check("dropUser: no such", Refused(11), lambda: database.command("dropUser", "reader"))
    report.check("currentOp shows itself", Matches("an operation", lambda found: any(
        "currentOp" in each.get("command", {}) for each in found)),
        lambda: place.client.admin.command("currentOp")["inprog"])
    report.check("the charge of the last request", Matches("some request units", lambda answer: (
        answer["RequestCharge"] > 0 and answer["CommandName"] == "find")), lambda: charge(place, c))
    report.check("validate", True, lambda: database.command("validate", c.name)["valid"])


def asked(place, c, password, mechanism):
    client = place.connect_as("reader", password, mechanism, place.name)
    try:
        return client[place.name][c.name].count_documents({"_id": 1})
    finally:
        client.close()


def charge(place, c):
    client = place.connect(maxPoolSize=1)
    try:
        client[place.name][c.name].find_one({"_id": 1})
        return client[place.name].command("getLastRequestStatistics")
    finally:
        client.close()
