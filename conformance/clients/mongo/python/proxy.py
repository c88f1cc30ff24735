"""A load balancer in front of two servers: it can lose a reply, and sends everyone to the other."""

import socket
import threading


class Proxy:
    """Listens on a port of its own and passes bytes on to the server in turn."""

    def __init__(self, *servers):
        self.servers = list(servers)
        self.open = []
        self.unanswered = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"mongodb://127.0.0.1:{self.listener.getsockname()[1]}/"
        start(self.accept)

    def lose_reply_to(self, command):
        """Of the next such command, the server's answer is lost; whatever follows goes elsewhere."""
        self.unanswered = b"\x02" + command.encode() + b"\x00"

    def lose_commit(self):
        self.unanswered = b"\x10commitTransaction\x00"

    def switch(self):
        """Cuts all connections; new ones lead to the other server."""
        self.servers.reverse()
        ended, self.open = self.open, []
        for connection in ended:
            end(connection)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.servers[0])
            self.open += [client, server]
            losing = threading.Event()
            start(self.pass_requests, client, server, losing)
            start(self.pass_replies, server, client, losing)

    def pass_requests(self, client, server, losing):
        for data in chunks(client):
            if self.unanswered and self.unanswered in data:
                self.unanswered = None
                losing.set()
            server.sendall(data)
        end(server)

    def pass_replies(self, server, client, losing):
        for data in chunks(server):
            if losing.is_set():
                self.switch()
                return
            client.sendall(data)
        end(client)

    def close(self):
        self.listener.close()
        self.switch()


def start(work, *arguments):
    threading.Thread(target=quietly, args=(work, *arguments), daemon=True).start()


def quietly(work, *arguments):
    try:
        work(*arguments)
    except OSError:
        pass  # one of the two sides went away


def chunks(connection):
    while data := connection.recv(1 << 16):
        yield data


def end(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already
