// The conformance agent: does the steps that a job's input lists, with nothing but the SDK's public API.

import {
  Cancelled,
  Client,
  done,
  GiveUp,
  type Job,
  type NewJob,
  NotDone,
  type OnDoubt,
  RetryAfter,
  type Secret,
  SignatureError,
  verify,
  Worker,
} from "wakepost";

interface Step {
  effect?: string;
  post?: string;
  on_doubt?: OnDoubt;
  description?: string;
  before?: string;
  inside?: string;
  at?: string;
  checkpoint?: true;
  progress?: string;
  percent?: number;
  step?: string;
  reply?: string;
  update?: boolean;
  sleep_ms?: number;
  until_cancelled?: true;
  fail?: string;
  retryable?: boolean;
  retry_after_s?: number;
  fail_first?: number;
  error?: string;
  throw?: string;
  result?: unknown;
  cost?: number;
  spent?: number;
  create?: NewJob;
  verify?: string;
  secrets?: Secret[];
  headers?: [string, string][];
  body?: string;
  now?: number;
}

type Steps = Job<{ steps: Step[] }>;

const receiver = process.env["RECEIVER_URL"] ?? "";

const worker = new Worker<{ steps: Step[] }>(
  new Client(),
  {
    name: process.env["AGENT_NAME"] ?? "conformance",
    kinds: (process.env["AGENT_KINDS"] ?? "conformance").split(","),
    leaseS: Number(process.env["AGENT_LEASE_S"] ?? 5),
    concurrency: Number(process.env["AGENT_CONCURRENCY"] ?? 1),
    graceS: Number(process.env["AGENT_GRACE_S"] ?? 5),
    waitS: 1,
  },
  doSteps,
);
console.log("ready");
await worker.run();
process.exit(0);

async function doSteps(job: Steps): Promise<unknown> {
  const effects: Record<string, unknown> = {};
  const verified: Record<string, boolean> = {};
  const first: number = job.saved?.next ?? 0;
  for (const [index, step] of stepsOf(job).entries()) {
    if (index < first) continue;
    if (step.verify !== undefined) verified[step.verify] = isGood(step);
    else if (step.create !== undefined) await job.client.createJob(step.create);
    else if (step.spent !== undefined) job.cost = step.spent;
    else if (step.effect !== undefined) effects[step.effect] = await doEffect(job, step.effect, step);
    else if (step.at !== undefined) await rendezvous(job, step.at);
    else if (step.checkpoint) await job.checkpoint({ next: index + 1 });
    else if (step.progress !== undefined) await tellProgress(job, step.progress, step);
    else if ("result" in step) return completion(step);
    else if (step.reply !== undefined) await say(job, step.reply, step.update);
    else if (step.sleep_ms !== undefined) await sleep(step.sleep_ms, job.signal);
    else if (step.until_cancelled) await untilCancelled(job);
    else if (step.fail !== undefined) fail(step.fail, step);
    else if (step.fail_first !== undefined) failFirst(job, step.fail_first, step);
    else if (step.throw !== undefined) throw new RangeError(step.throw);
    else throw new GiveUp(`step ${index} is not known: ${Object.keys(step).join(", ")}`);
  }
  return { effects, attempt: job.attempt, ...(Object.keys(verified).length > 0 ? { verified } : {}) };
}

/** A job made through the API has them as its input, a message as its text. */
function stepsOf(job: Steps): Step[] {
  const { steps } = job.input ?? (JSON.parse(job.envelope?.message?.text ?? "") as { steps: Step[] });
  return steps;
}

function isGood({ headers, body, secrets, now }: Step): boolean {
  const given: Record<string, string[]> = {};
  for (const [name, value] of headers ?? []) (given[name] ??= []).push(value);
  try {
    verify(given, body ?? "", secrets ?? [], { now: (now ?? 0) * 1000 });
    return true;
  } catch (error) {
    if (error instanceof SignatureError) return false;
    throw error;
  }
}

function doEffect(job: Steps, key: string, step: Step): Promise<unknown> {
  const act = async (idempotencyKey: string) => {
    if (step.before !== undefined) await rendezvous(job, step.before);
    const answer = await fetch(receiver + step.post, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "idempotency-key": idempotencyKey,
        "wakepost-run-id": job.runId,
      },
      body: JSON.stringify({ job: job.id, key }),
    });
    const text = await answer.text();
    if (answer.status >= 400 && answer.status < 500) throw new NotDone(text);
    if (!answer.ok) throw new Error(`the receiver answered ${answer.status}`);
    if (step.inside !== undefined) await rendezvous(job, step.inside);
    return JSON.parse(text) as unknown;
  };
  // The control of the kill trials: what an agent without the ledger would do.
  if (process.env["AGENT_WITHOUT_LEDGER"]) return act("none");
  return job.effect(key, act, {
    ...(step.description === undefined ? {} : { description: step.description }),
    ...(step.on_doubt === undefined ? {} : { onDoubt: step.on_doubt }),
  });
}

async function rendezvous(job: Steps, name: string): Promise<void> {
  await post(`/at/${name}`, { job: job.id, run: job.runId, attempt: job.attempt }, job.signal);
}

async function post(path: string, body: object, signal: AbortSignal | null): Promise<void> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(receiver + path, { method: "POST", headers, body: JSON.stringify(body), signal });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`the receiver answered ${answer.status} to ${path}`);
}

async function tellProgress(job: Steps, message: string, { percent, step }: Step): Promise<void> {
  await job.progress({
    message,
    ...(percent === undefined ? {} : { percent }),
    ...(step === undefined ? {} : { step }),
  });
}

async function say(job: Steps, text: string, update: boolean | undefined): Promise<void> {
  await job.reply({ text, ...(update === undefined ? {} : { update }) });
}

function completion({ result, reply, cost }: Step): unknown {
  return done({
    result,
    ...(reply === undefined ? {} : { reply }),
    ...(cost === undefined ? {} : { cost }),
  });
}

async function untilCancelled(job: Steps): Promise<never> {
  if (!job.signal.aborted) {
    await new Promise((resolve) => job.signal.addEventListener("abort", resolve, { once: true }));
  }
  if (job.signal.reason instanceof Cancelled) await post("/cancelled", { job: job.id }, null);
  throw job.signal.reason;
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
  signal.throwIfAborted();
}

function fail(text: string, { retryable, retry_after_s }: Step): never {
  if (retryable === false) throw new GiveUp(text);
  if (retry_after_s !== undefined) throw new RetryAfter(retry_after_s, text);
  throw new Error(text);
}

function failFirst(job: Steps, attempts: number, step: Step): void {
  if (job.attempt <= attempts) throw new Error(step.error ?? `attempt ${job.attempt} fails`);
}
