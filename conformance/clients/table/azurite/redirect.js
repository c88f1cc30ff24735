// Azurite's tests start the server that they test: here they get one that passes every connection
// on to the server named by TESSERA_TARGET, with TLS on this side where the test wants TLS.
"use strict";

const fs = require("node:fs");
const Module = require("node:module");
const net = require("node:net");
const tls = require("node:tls");

const ADDRESS = { host: "127.0.0.1", port: 11002 };
const [host, port] = process.env.TESSERA_TARGET.split(/:(?=\d+$)/);

class Redirect {
  constructor(https) {
    this.config = ADDRESS;
    this.sockets = new Set();
    const pass = (client) => {
      const server = net.connect({ host, port: Number(port) });
      for (const [from, to] of [[client, server], [server, client]]) {
        this.sockets.add(from);
        from.on("error", () => to.destroy());
        from.on("close", () => { this.sockets.delete(from); to.destroy(); });
        from.pipe(to);
      }
    };
    this.listener = https
      ? tls.createServer({
        cert: fs.readFileSync("tests/server.cert"), key: fs.readFileSync("tests/server.key"),
      }, pass)
      : net.createServer(pass);
  }

  start() {
    return new Promise((resolve, reject) => {
      this.listener.once("error", reject);
      this.listener.listen(ADDRESS, resolve);
    });
  }

  close() {
    for (const socket of this.sockets) socket.destroy();
    return new Promise((resolve) => { this.listener.close(() => resolve()); });
  }

  async clean() {}
}

class Factory {
  static inMemoryPersistence() { return true; }

  createServer(parameters) { return new Redirect(parameters.https); }
}

const load = Module._load;
Module._load = function redirected(request, ...rest) {
  if (request.endsWith("/TableTestServerFactory")) return { default: Factory, __esModule: true };
  return load.call(this, request, ...rest);
};
