// One call of the API: sent, answered in time, read up to a limit, and repeated where that is harmless.

import { Backoff, pause } from "./backoff.js";
import { type Problem, refusal, Unreachable, WakepostError, withCauses } from "./errors.js";

/** What a caller may say about one call. */
export interface CallOptions {
  /** Gives the call up. */
  signal?: AbortSignal;
  /** How long one try may take. */
  timeoutMs?: number;
  /** How often a call that may be repeated is sent again while the server is away. */
  retries?: number;
}

/** Where calls go, and the usual options. */
export interface Destination {
  url: string;
  headers: Record<string, string>;
  timeoutMs: number;
  retries: number;
  bodyBytesMax: number;
}

export interface Request {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path and query, after the server's URL. */
  path: string;
  body?: unknown;
  /** Whether a repeat changes nothing more than the first did. */
  repeatable: boolean;
  idempotencyKey?: string;
  /** Further headers. */
  headers?: Record<string, string>;
  /** How long the server is asked to wait before it answers. */
  waitMs?: number;
}

/** Sends a request until it is answered, or its retries are used up. */
export async function send<T>(to: Destination, request: Request, options: CallOptions): Promise<T> {
  const init = prepare(to, request);
  const retries = request.repeatable ? (options.retries ?? to.retries) : 0;
  const backoff = new Backoff();
  for (let tries = 0; ; tries++) {
    try {
      return await once<T>(to, request, init, options);
    } catch (error) {
      const again = error instanceof WakepostError && error.isTransient && tries < retries;
      if (!again) throw error;
      await pause(backoff.nextMs(error.problem?.retryAfterS), options.signal);
      options.signal?.throwIfAborted();
    }
  }
}

function prepare(to: Destination, request: Request): RequestInit {
  const headers: Record<string, string> = { accept: "application/json", ...request.headers, ...to.headers };
  if (request.idempotencyKey !== undefined) headers["idempotency-key"] = request.idempotencyKey;
  // A redirect is an answer like any other, so that the key goes nowhere else.
  const init: RequestInit = { method: request.method, headers, redirect: "manual" };
  if (request.body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(request.body);
  }
  return init;
}

async function once<T>(
  to: Destination,
  request: Request,
  init: RequestInit,
  options: CallOptions,
): Promise<T> {
  const timeoutMs = (options.timeoutMs ?? to.timeoutMs) + (request.waitMs ?? 0);
  options.signal?.throwIfAborted();
  const controller = new AbortController();
  const giveUp = () => controller.abort(options.signal?.reason);
  options.signal?.addEventListener("abort", giveUp);
  const timer = setTimeout(() => controller.abort(), timeoutMs);
  try {
    const response = await fetch(to.url + request.path, { ...init, signal: controller.signal });
    return read<T>(response, await readBounded(response, to.bodyBytesMax));
  } catch (error) {
    options.signal?.throwIfAborted();
    if (error instanceof WakepostError) throw error;
    const why = controller.signal.aborted ? `no answer within ${timeoutMs} ms` : withCauses(error);
    throw new Unreachable(`cannot reach ${to.url}: ${why}`, undefined, { cause: error });
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", giveUp);
  }
}

function read<T>(response: Response, bytes: Uint8Array): T {
  const text = new TextDecoder().decode(bytes);
  if (response.ok) {
    try {
      return (text.trim() === "" ? undefined : JSON.parse(text)) as T;
    } catch (error) {
      throw new WakepostError("the answer is not JSON", undefined, { cause: error });
    }
  }
  if (response.status < 400) {
    throw new WakepostError(`status ${response.status}; is the URL right, https or http included?`);
  }
  throw refusal(problem(response, text));
}

/** Reads a refusal. One that is not Wakepost's has no code. */
function problem(response: Response, text: string): Problem {
  let said: Partial<Problem> = {};
  try {
    said = (JSON.parse(text) as Partial<Problem> | null) ?? {};
  } catch {
    // A proxy's page.
  }
  const retryAfterS = Number(response.headers.get("retry-after") ?? Number.NaN);
  return {
    status: response.status,
    code: typeof said.code === "string" ? said.code : "",
    title: typeof said.title === "string" ? said.title : response.statusText || "refused",
    ...(typeof said.detail === "string" ? { detail: said.detail } : {}),
    errors: Array.isArray(said.errors) ? said.errors : [],
    ...(retryAfterS >= 0 ? { retryAfterS } : {}),
  };
}

/** Reads a body to its end, unless it is too long. */
export async function readBounded(
  message: { body: ReadableStream<Uint8Array> | null },
  bytesMax: number,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (message.body !== null) {
    for await (const chunk of message.body as AsyncIterable<Uint8Array>) {
      length += chunk.byteLength;
      if (length > bytesMax) throw new WakepostError(`the body is longer than ${bytesMax} bytes`);
      chunks.push(chunk);
    }
  }
  return Buffer.concat(chunks);
}
