"""How the server refuses, as the driver tells it."""

from cassandra import AlreadyExists, AuthenticationFailed, InvalidRequest, Unauthorized
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ConfigurationException, SyntaxException

REFUSALS = (AlreadyExists, AuthenticationFailed, ConfigurationException, InvalidRequest,
            SyntaxException, Unauthorized)


class Refused:
    """An error of the server: its kind, and words that it must say."""

    def __init__(self, kind, words=""):
        self.kind = kind
        self.words = words

    def __eq__(self, other):
        return isinstance(other, Refused) and self.kind == other.kind and self.words in other.words

    def __repr__(self):
        return f"{self.kind.__name__} {self.words!r}"


def outcome(action):
    """What an action returns, or the refusal that it meets."""
    try:
        return action()
    except REFUSALS as error:
        return Refused(type(error), str(error))
    except NoHostAvailable as error:
        causes = list(error.errors.values())
        if causes and isinstance(causes[0], REFUSALS):
            return Refused(type(causes[0]), str(causes[0]))
        raise
