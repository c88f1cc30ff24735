"""How the server refuses, as the driver tells it."""

from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure


class Refused:
    """An error of the server: its code and, where a case names them, its labels."""

    def __init__(self, code, *labels):
        self.code = code
        self.labels = set(labels)

    def __eq__(self, other):
        return isinstance(other, Refused) and self.code == other.code and self.labels <= other.labels

    def __repr__(self):
        labels = f" with {', '.join(sorted(self.labels))}" if self.labels else ""
        return f"error {self.code}{labels}"

    @classmethod
    def of(cls, error):
        labels = (error.details or {}).get("errorLabels", [])
        if isinstance(error, BulkWriteError):
            return cls(error.details["writeErrors"][0]["code"], *labels)
        return cls(error.code, *labels)


def outcome(action):
    """What an action returns, or the refusal that it meets."""
    try:
        return action()
    except OperationFailure as error:
        return Refused.of(error)
    except ConnectionFailure:
        return ConnectionFailure
