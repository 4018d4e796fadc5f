// BullMQ on a Redis of its own. From its documentation: jobs are added in bulk ("Adding jobs in bulk"), a worker's
// concurrency is one to three hundred and there are workers in several processes where there are cores for them
// ("Parallelism and concurrency"), finished jobs are removed at once ("Auto-removal of jobs"), and a worker's connection
// never gives a command up ("Going to production"; that Redis must evict nothing and keep an append-only file is said
// there too, and set where it is started). Fetching in batches is not in the free edition.

import { Queue, Worker } from "bullmq";

import { drain, serve } from "./drain.mjs";
import { latency } from "./latency.mjs";

const QUEUE = "noop";
const CONCURRENCY = 200;
const ADDED_AT_ONCE = 1_000;

const defaultJobOptions = { removeOnComplete: true };

function connection(url) {
  return { url, maxRetriesPerRequest: null };
}

async function worker(url, concurrency, task) {
  const options = { connection: connection(url), concurrency, autorun: false };
  const worker = new Worker(QUEUE, task, options);
  worker.on("error", (error) => console.error(error));
  await worker.waitUntilReady();
  return worker;
}

const peer = {
  async enqueue(url, count) {
    const queue = new Queue(QUEUE, { connection: connection(url), defaultJobOptions });
    for (let first = 0; first < count; first += ADDED_AT_ONCE) {
      const length = Math.min(ADDED_AT_ONCE, count - first);
      const jobs = Array.from({ length }, (_, n) => ({ name: QUEUE, data: { number: first + n } }));
      await queue.addBulk(jobs);
    }
    await queue.close();
  },

  async worker(url, onDone) {
    const own = await worker(url, CONCURRENCY, async () => null);
    // Said when Redis has answered that the job is finished.
    own.on("completed", () => onDone(1));
    return {
      go: () => void own.run(),
      stop: () => own.close(true),
    };
  },

  // A job counts as done when its completion was answered.
  async settled() {},

  async open(url, onStart) {
    const own = await worker(url, 10, async (job) => onStart(job.data.number));
    own.run();
    const queue = new Queue(QUEUE, { connection: connection(url), defaultJobOptions });
    return {
      add: (number) => queue.add(QUEUE, { number }),
      async stop() {
        await own.close();
        await queue.close();
      },
    };
  },
};

const [verb, url, ...numbers] = process.argv.slice(2);
if (verb === "worker") {
  await serve(peer, url);
} else {
  const measure = verb === "start" ? latency : drain;
  console.log(JSON.stringify(await measure(peer, url, ...numbers.map(Number))));
  process.exit(0);
}
