// The conformance agent, as a process of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("../../dist/conformance-agent.js", import.meta.url));

export async function startAgent(t, server, receiver, env = {}) {
  const child = spawn(process.execPath, [PROGRAM], {
    env: {
      PATH: process.env.PATH,
      WAKEPOST_URL: server.url,
      WAKEPOST_KEY: server.key,
      RECEIVER_URL: receiver.url,
      AGENT_LEASE_S: "4",
      ...env,
    },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  t.after(() => child.kill("SIGKILL"));
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  if (line !== "ready") throw new Error(`the agent said ${line}`);
  return { kill: (signal) => child.kill(signal), exited };
}
