"""The server's console: what it shows of partitions, and what it changes."""

import json
import urllib.parse
import urllib.request


class Console:
    def __init__(self, address):
        self.address = address

    def listeners(self):
        """Where each front end listens, by its name."""
        return {name: it["address"] for name, it in self.ask("health")["listeners"].items()}

    def container(self, api, database, name):
        return self.ask(path(api, database, name))

    def change(self, action, body, api, database, name):
        return self.ask(f"{path(api, database, name)}/{action}", body)

    def ask(self, address, body=None):
        request = urllib.request.Request(f"http://{self.address}/{address}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def path(*names):
    return "api/containers/" + "/".join(urllib.parse.quote(name, safe="") for name in names)
