// Where the server is, which key it gets, and how calls are made: what every part of the client shares.

import { randomUUID } from "node:crypto";

import { type CallOptions, type Destination, type Request, send } from "./call.js";

/** How long one try of a call may take, unless told otherwise. */
const TIMEOUT_MS = 30_000;
/** How often a harmless call is repeated, unless told otherwise. */
const RETRIES = 3;
/** The largest answer that is read. */
const BODY_BYTES_MAX = 64 * 1024 * 1024;

/** Where the server is, and how to speak to it. */
export interface ClientOptions {
  /** `https://hooks.example.com`, also with a path in front of the API. Else the variable `WAKEPOST_URL`. */
  url?: string;
  /** The API key. Else the variable `WAKEPOST_KEY`. */
  key?: string;
  /** Acts on this tenant, which a key of all tenants may. */
  tenant?: string;
  /** How long one try of a call may take (30 s). A long poll adds its own wait. */
  timeoutMs?: number;
  /** How often a call that changes nothing when it is repeated is sent again while the server is away (3). */
  retries?: number;
}

/** Options of a call that makes something. */
export interface CreateOptions extends CallOptions {
  /** The same key and body get the first answer again, for 24 hours. One is made if it is left out. */
  idempotencyKey?: string;
}

/** Which run asks: a {@link LeasedJob} is one. */
export interface Asker {
  /** What the run was given to pass on. */
  chain?: string | null;
  /** Its place in the trace. */
  traceparent?: string | null;
}

/** The calls' common ground; {@link Client} is what people use. */
export class Core {
  readonly #to: Destination;
  readonly #options: ClientOptions;
  readonly #tenant: string | undefined;
  /** The headers that say which run asks. */
  #asker: Record<string, string> = {};

  constructor(options: ClientOptions = {}) {
    const url = options.url ?? process.env["WAKEPOST_URL"];
    const key = options.key ?? process.env["WAKEPOST_KEY"];
    if (!url) throw new TypeError("give the server's url, or set WAKEPOST_URL");
    if (!key) throw new TypeError("give a key, or set WAKEPOST_KEY");
    if (!/^[\x21-\x7e]+$/.test(key)) throw new TypeError("the key has characters that no key has");
    this.#options = { ...options, url, key };
    this.#tenant = options.tenant;
    this.#to = {
      url: baseUrl(url),
      headers: { authorization: `Bearer ${key}`, "user-agent": "wakepost-typescript/0.1.0" },
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      retries: options.retries ?? RETRIES,
      bodyBytesMax: BODY_BYTES_MAX,
    };
  }

  /** The server's base URL. */
  get url(): string {
    return this.#to.url;
  }

  /**
   * The same client, but jobs that it creates know which run made them, and go on with its trace. So agents that call
   * each other without end are stopped. `job.client` is one.
   */
  onBehalfOf(run: Asker): this {
    const client = new (this.constructor as new (options: ClientOptions) => this)(this.#options);
    if (run.chain) client.#asker["wakepost-chain"] = run.chain;
    if (run.traceparent) client.#asker["traceparent"] = run.traceparent;
    return client;
  }

  /** The headers that say which run asks. */
  protected get asker(): Record<string, string> {
    return this.#asker;
  }

  protected read<T>(path: string, options?: CallOptions): Promise<T> {
    return this.send({ method: "GET", path, repeatable: true }, options);
  }

  protected create<T>(path: string, body: unknown, options: CreateOptions, headers = {}): Promise<T> {
    const idempotencyKey = options.idempotencyKey ?? newKey();
    return this.send({ method: "POST", path, body, repeatable: true, idempotencyKey, headers }, options);
  }

  protected post<T>(
    path: string,
    body: unknown,
    repeatable: boolean,
    options?: CallOptions,
    headers = {},
  ): Promise<T> {
    return this.send({ method: "POST", path, body, repeatable, headers }, options);
  }

  protected send<T>(request: Request, options: CallOptions = {}): Promise<T> {
    const mark = request.path.includes("?") ? "&" : "?";
    const tenant = this.#tenant === undefined ? "" : `${mark}tenant=${encodeURIComponent(this.#tenant)}`;
    return send(this.#to, { ...request, path: `/api/v1${request.path}${tenant}` }, options);
  }
}

/** A key that nobody else has. */
export function newKey(): string {
  return randomUUID();
}

function baseUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError("the server's url must begin with http:// or https:// and a host");
  }
  if (!["http:", "https:"].includes(url.protocol)) {
    throw new TypeError("the server's url must begin with http:// or https:// and a host");
  }
  if (url.username !== "" || url.password !== "") {
    // Not repeated: it may hold a password.
    throw new TypeError("the server's url must not hold a user or password: use a key");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** A path of these segments. One that would lead elsewhere is refused. */
export function at(...segments: string[]): string {
  const path = segments.map((segment) => {
    if (segment === "" || segment === "." || segment === "..") {
      throw new TypeError(`${JSON.stringify(segment)} is not an id`);
    }
    return encodeURIComponent(segment);
  });
  return `/${path.join("/")}`;
}

/** A query of what is given. */
export function asked(query: object): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) given.set(name, String(value));
  }
  return given.size === 0 ? "" : `?${given}`;
}
