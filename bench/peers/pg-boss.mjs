// pg-boss: jobs fetched and completed in batches, as its `work` does, but without a pause between two. A fetch
// sorts all that waits, so large batches serve it best: with batches of 100 it is about four times slower.

import pg from "pg";
import PgBoss from "pg-boss";

import { drain, serve } from "./drain.mjs";

const QUEUE = "noop";
const BATCH = 1000;
const LOOPS = 4;
const INSERTED_AT_ONCE = 10_000;

/** Without its maintenance, which need not run beside the workers. */
async function boss(url, max) {
  const boss = new PgBoss({ connectionString: url, max, supervise: false, schedule: false });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

const peer = {
  async enqueue(url, count) {
    const filler = await boss(url, 2);
    await filler.createQueue(QUEUE);
    for (let first = 0; first < count; first += INSERTED_AT_ONCE) {
      const length = Math.min(INSERTED_AT_ONCE, count - first);
      const jobs = Array.from({ length }, (_, n) => ({ name: QUEUE, data: { number: first + n } }));
      await filler.insert(jobs);
    }
    await filler.stop();
    await query(url, "VACUUM ANALYZE");
  },

  async worker(url, onDone) {
    const worker = await boss(url, LOOPS);
    let stopped = false;
    // Opens the connections.
    await Promise.all(Array.from({ length: LOOPS }, () => worker.fetch(`${QUEUE}-none`)));
    const loop = async () => {
      while (!stopped) {
        const jobs = await worker.fetch(QUEUE, { batchSize: BATCH, priority: false });
        if (jobs.length === 0) return;
        await worker.complete(QUEUE, jobs.map((job) => job.id));
        onDone(jobs.length);
      }
    };
    return {
      go: () => Promise.all(Array.from({ length: LOOPS }, loop)),
      async stop() {
        stopped = true;
        await worker.stop({ graceful: false });
      },
    };
  },

  // A job counts as done when its completion is committed.
  async settled() {},
};

async function query(url, text) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(text);
  await client.end();
}

const [verb, url, ...numbers] = process.argv.slice(2);
if (verb === "worker") {
  await serve(peer, url);
} else {
  const [count, processes] = numbers.map(Number);
  console.log(JSON.stringify(await drain(peer, url, count, processes)));
}
