// An agent that Wakepost runs as a command: does what the job's input says.

import { once } from "node:events";
import { writeFile } from "node:fs/promises";

import { done, execJob, GiveUp, RetryAfter } from "wakepost";

await execJob(async (job) => {
  console.log(`begun with ${job.input.do}`);
  switch (job.input.do) {
    case "complete": {
      const sent = await job.effect("mail", (key) => ({ key, job: job.id }));
      await job.checkpoint({ sent });
      return done({ result: { result: sent.job }, reply: "hello", cost: 2 });
    }
    case "give up":
      throw new GiveUp("no use");
    case "later":
      if (job.attempt === 1) throw new RetryAfter(0, "not yet");
      return { attempt: job.attempt };
    case "wait":
      await job.checkpoint("waiting");
      await once(job.signal, "abort");
      await writeFile(job.input.file, job.signal.reason.name);
      throw job.signal.reason;
    case "doubt":
      return job.effect("act", () => {
        if (job.attempt === 1) process.kill(process.pid, "SIGKILL");
        return new Promise(() => {});
      });
  }
});
