"""What a partition key may hold and how long it may be, and how each API says so."""

from apis import APIS

CONTAINER = "limited"
# Five of them are beyond what the server was told that a partition key may hold.
LARGE = "x" * 25_000
LONG_KEY = "k" * 200
REFUSALS = {
    "mongo": ((10334, ""), (10334, "")),
    "cql": (("InvalidRequest", "maximum size"), ("InvalidRequest", "partition key of")),
    "table": (("HttpResponseError", '"code":"Forbidden"'),
              ("HttpResponseError", '"code":"PropertyValueTooLarge"')),
}


def walk(console, report):
    listeners = console.listeners()
    for name, api in APIS.items():
        client = api(listeners[name], retries=False)
        try:
            client.create(CONTAINER, None)
            full, long = REFUSALS[name]
            found = refusal(lambda: fill(client))
            report(f"{name}: a full partition key is refused", matches(found, full), found)
            client.put(CONTAINER, "another", 1, LARGE)
            report(f"{name}: another one is not", client.get(CONTAINER, "another", 1), "gone")
            found = refusal(lambda: client.put(CONTAINER, LONG_KEY, 1))
            report(f"{name}: a long partition key is refused", matches(found, long), found)
        finally:
            client.close()


def fill(client):
    for row in range(10):
        client.put(CONTAINER, "full", row, LARGE)


def refusal(action):
    """What an API calls a refusal, and its words."""
    try:
        action()
    except Exception as error:  # each driver has its own kinds of them
        return getattr(error, "code", type(error).__name__), str(error)
    return None, "no refusal"


def matches(found, expected):
    return found[0] == expected[0] and expected[1] in found[1]
