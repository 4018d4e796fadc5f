// A real Wakepost server, on a free port and a directory of its own.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Client } from "wakepost";

const BINARY = process.env.WAKEPOST_BIN;

/** Starts a server that ends with the test. */
export async function startServer(t, extra = {}) {
  if (!BINARY) throw new Error("set WAKEPOST_BIN to the program wakepost");
  const directory = await mkdtemp(join(tmpdir(), "wakepost-typescript-"));
  const server = new Server(directory, extra.env ?? {});
  t.after(async () => {
    await server.kill();
    await rm(directory, { recursive: true, force: true });
  });
  await extra.prepare?.(directory);
  await server.start("127.0.0.1:0");
  return server;
}

class Server {
  #env;
  #process;

  constructor(directory, env) {
    this.directory = directory;
    this.key = randomBytes(24).toString("hex");
    this.#env = env;
  }

  async start(listen) {
    const args = ["serve", "--listen", listen, "--data-dir", join(this.directory, "data")];
    this.#process = spawn(BINARY, args, {
      cwd: this.directory,
      env: { PATH: process.env.PATH, HOME: this.directory, WAKEPOST_ADMIN_KEY: this.key, ...this.#env },
      stdio: ["ignore", "pipe", "ignore"],
    });
    for await (const line of createInterface({ input: this.#process.stdout })) {
      const found = /listening on (http:\S+)/.exec(line);
      if (found) {
        this.url = found[1];
        this.#process.stdout.resume();
        return;
      }
    }
    throw new Error("the server did not start");
  }

  async kill() {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** Starts it again, where it was. */
  async restart() {
    await this.start(new URL(this.url).host);
  }

  client(options = {}) {
    return new Client({ url: this.url, key: this.key, ...options });
  }

  /** A call that the SDK has no method for. */
  async call(method, path, body) {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
    return answer.json();
  }
}
