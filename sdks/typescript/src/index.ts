// The TypeScript SDK of Wakepost: a client, a worker, a consumer, the two ways to be called, and a verifier.

export type { CallOptions } from "./call.js";
export { Client } from "./client.js";
export type { Asker, ClientOptions, CreateOptions } from "./core.js";
export { Cancelled, type FieldError, LeaseLost, type Problem, Unreachable, WakepostError } from "./errors.js";
export { execJob } from "./exec.js";
export { type Posted, type PushOptions, verifyJob } from "./push.js";
export type * from "./types.js";
export {
  type HeadersLike,
  type PublicJwk,
  type Secret,
  SignatureError,
  type Verified,
  verify,
  type VerifyOptions,
} from "./verify.js";
export { Consumer, type ConsumerOptions, Delivery, type DeliveryHandler } from "./webhooks/consumer.js";
export type * from "./webhooks/types.js";
export type { Handler } from "./worker/attempt.js";
export type { Act } from "./worker/effects.js";
export type { EffectOptions, Job } from "./worker/job.js";
export {
  done,
  EffectInDoubt,
  GiveUp,
  NotDone,
  RetryAfter,
  RunEnded,
  WorkerStopped,
} from "./worker/outcome.js";
export type { LoopOptions } from "./worker/loop.js";
export { Worker, type WorkerOptions } from "./worker/worker.js";
