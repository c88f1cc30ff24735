"""What a client sends and receives, as its monitors tell it."""

from pymongo import monitoring

# The handshake and what carries secrets is never shown to tests.
HIDDEN = {"hello", "ismaster", "saslstart", "saslcontinue", "authenticate", "getnonce",
          "createuser", "updateuser", "copydbgetnonce", "copydbsaslstart", "copydb"}


class Commands(monitoring.CommandListener):
    """The command events of one client."""

    def __init__(self, observed, ignored):
        self.observed = set(observed)
        self.ignored = {name.lower() for name in ignored} | HIDDEN | {"configurefailpoint"}
        self.events = []
        self.sent = []

    def started(self, event):
        if event.command_name.lower() not in self.ignored:
            self.sent.append(event.command)
            self.note("commandStartedEvent", {"command": event.command, "commandName": event.command_name,
                                              "databaseName": event.database_name})

    def succeeded(self, event):
        self.note_end("commandSucceededEvent", event, {"reply": event.reply})

    def failed(self, event):
        self.note_end("commandFailedEvent", event, {})

    def note_end(self, kind, event, details):
        if event.command_name.lower() not in self.ignored:
            self.note(kind, {"commandName": event.command_name, "databaseName": event.database_name} | details)

    def note(self, kind, details):
        if kind in self.observed:
            self.events.append((kind, details))


class Connections(monitoring.ConnectionPoolListener):
    """The connection pool events of one client."""

    def __init__(self, observed):
        self.observed = set(observed)
        self.events = []
        self.checked_out = 0

    def note(self, kind):
        if kind in self.observed:
            self.events.append((kind, {}))

    def connection_checked_out(self, event):
        self.checked_out += 1
        self.note("connectionCheckedOutEvent")

    def connection_checked_in(self, event):
        self.checked_out -= 1
        self.note("connectionCheckedInEvent")

    def connection_ready(self, event):
        self.note("connectionReadyEvent")

    def connection_created(self, event):
        self.note("connectionCreatedEvent")

    def connection_closed(self, event):
        self.note("connectionClosedEvent")

    def connection_check_out_started(self, event):
        self.note("connectionCheckOutStartedEvent")

    def connection_check_out_failed(self, event):
        self.note("connectionCheckOutFailedEvent")

    def pool_created(self, event):
        self.note("poolCreatedEvent")

    def pool_ready(self, event):
        self.note("poolReadyEvent")

    def pool_cleared(self, event):
        self.note("poolClearedEvent")

    def pool_closed(self, event):
        self.note("poolClosedEvent")
