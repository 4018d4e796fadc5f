// A drain by worker processes: jobs are enqueued first, then every process starts at the same moment. The clock
// starts when the first few thousand are done, so that connections, plans and compiled code are warm as those of a
// server that has been running, and stops when the last job is done in the database.

import { fork } from "node:child_process";

const WARM_UP = 5_000;

/**
 * Runs in the first process and, forked, in each worker process.
 * peer.enqueue(url, count): fills the queue.
 * peer.worker(url, onDone): gets ready, and answers { go, stop }; tells onDone how many more are done.
 * peer.settled(url): waits until no job is left in the database.
 */
export async function drain(peer, url, count, processes) {
  const all = WARM_UP + count;
  await peer.enqueue(url, all);
  const workers = await Promise.all(Array.from({ length: processes }, () => start(url)));
  let done = 0;
  let warm;
  await new Promise((resolve, reject) => {
    for (const worker of workers) {
      worker.on("message", (message) => {
        done += message.done ?? 0;
        if (done >= WARM_UP) warm ??= { done, at: performance.now() };
        if (done >= all) resolve();
      });
      worker.on("exit", () => reject(new Error("a worker process ended early")));
      worker.send("go");
    }
  });
  await peer.settled(url);
  const seconds = (performance.now() - warm.at) / 1000;
  for (const worker of workers) worker.removeAllListeners("exit");
  const ended = workers.map((worker) => new Promise((resolve) => worker.once("exit", resolve)));
  for (const worker of workers) worker.send("stop");
  await Promise.all(ended);
  return { jobs: all - warm.done, seconds };
}

function start(url) {
  const worker = fork(process.argv[1], ["worker", url]);
  return new Promise((resolve, reject) => {
    worker.once("message", () => resolve(worker));
    worker.once("exit", () => reject(new Error("a worker process did not start")));
  });
}

/** The other side of `drain`, in a worker process. */
export async function serve(peer, url) {
  // Told in bundles: a message for each job would be a cost the peer does not have.
  let unsaid = 0;
  const say = () => {
    if (unsaid > 0) process.send({ done: unsaid });
    unsaid = 0;
  };
  const saying = setInterval(say, 2);
  const worker = await peer.worker(url, (done) => {
    unsaid += done;
  });
  process.on("message", async (message) => {
    if (message === "go") return worker.go();
    clearInterval(saying);
    await worker.stop();
    process.exit(0);
  });
  process.send("ready");
}
