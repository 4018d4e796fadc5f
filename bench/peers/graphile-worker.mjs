// graphile-worker, with the settings of its own page on performance.

import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";

import { drain, serve } from "./drain.mjs";
import { latency } from "./latency.mjs";

const TASK = "noop";
const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

const peer = {
  async enqueue(url, count) {
    const pool = await warm(url, 1);
    await runMigrations({ pgPool: pool, logger: quiet });
    await pool.query(
      `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
         SELECT json_populate_record(NULL::graphile_worker.job_spec,
                  json_build_object('identifier', $2::text, 'payload', json_build_object('number', n)))
         FROM generate_series(1, $1::int) n))`,
      [count, TASK],
    );
    await pool.query("VACUUM ANALYZE graphile_worker._private_jobs");
    await pool.end();
  },

  async worker(url, onDone) {
    const pool = await warm(url, 12);
    const preset = {
      worker: {
        concurrentJobs: 24,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    };
    let runner;
    return {
      async go() {
        runner = await run({
          pgPool: pool,
          preset,
          logger: quiet,
          noHandleSignals: true,
          taskList: { [TASK]: () => onDone(1) },
        });
      },
      async stop() {
        await runner.stop();
        await pool.end();
      },
    };
  },

  async settled(url) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const left = "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS any";
    while ((await client.query(left)).rows[0].any) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await client.end();
  },
};

/** A pool whose connections are open already. */
async function warm(url, max) {
  const pool = new pg.Pool({ connectionString: url, max });
  // Both, or it warns.
  pool.on("error", (error) => console.error(error));
  pool.on("connect", (client) => client.on("error", (error) => console.error(error)));
  const clients = await Promise.all(Array.from({ length: max }, () => pool.connect()));
  for (const client of clients) client.release();
  return pool;
}

/** Without the batching that costs latency. */
async function open(url, onStart) {
  const pool = await warm(url, 16);
  await runMigrations({ pgPool: pool, logger: quiet });
  const runner = await run({
    pgPool: pool,
    preset: { worker: { concurrentJobs: 10 } },
    logger: quiet,
    noHandleSignals: true,
    taskList: { [TASK]: ({ number }) => onStart(number) },
  });
  const utils = await makeWorkerUtils({ pgPool: pool, logger: quiet });
  return {
    add: (number) => utils.addJob(TASK, { number }),
    async stop() {
      await runner.stop();
      await pool.end();
    },
  };
}

const [verb, url, ...numbers] = process.argv.slice(2);
if (verb === "worker") {
  await serve(peer, url);
} else {
  const measure = verb === "start" ? latency.bind(null, { open }) : drain.bind(null, peer);
  console.log(JSON.stringify(await measure(url, ...numbers.map(Number))));
}
