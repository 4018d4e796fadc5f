// What can go wrong with a call, by what the caller can do about it.

/** One refused field of a request. */
export interface FieldError {
  field: string;
  message: string;
}

/** The server's refusal (RFC 9457). */
export interface Problem {
  status: number;
  /** A stable word; empty if the answer was not Wakepost's (a proxy's page, say). */
  code: string;
  title: string;
  detail?: string;
  /** For 422: which fields, and why. */
  errors: FieldError[];
  /** How long to wait, from the `Retry-After` header. */
  retryAfterS?: number;
}

/** Why a call did not work. */
export class WakepostError extends Error {
  override name = "WakepostError";
  /** The server's refusal, if it is one. */
  readonly problem: Problem | undefined;

  constructor(message: string, problem?: Problem, options?: ErrorOptions) {
    super(message, options);
    this.problem = problem;
  }

  /** The HTTP status; 0 if there was no answer. */
  get status(): number {
    return this.problem?.status ?? 0;
  }

  /** The refusal's stable code; empty if there is none. */
  get code(): string {
    return this.problem?.code ?? "";
  }

  /** Whether the same call may work later: no answer, 429, or the server's own trouble. */
  get isTransient(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

/** No answer: nobody listens, the name is unknown, or it took too long. The call may still have worked. */
export class Unreachable extends WakepostError {
  override name = "Unreachable";

  override get isTransient(): boolean {
    return true;
  }
}

/** The lease is not live any more: the job is someone else's, or nobody's. Stop working on it. */
export class LeaseLost extends WakepostError {
  override name = "LeaseLost";

  constructor(message = "the lease is lost", problem?: Problem) {
    super(message, problem);
  }
}

/** Someone asked for the job to stop. Let it pass: the job is `cancelled` then. */
export class Cancelled extends WakepostError {
  override name = "Cancelled";

  constructor(message = "the job is asked to stop", problem?: Problem) {
    super(message, problem);
  }
}

/** The error that a refusal becomes. */
export function refusal(problem: Problem): WakepostError {
  const message = sentence(problem);
  switch (problem.code) {
    case "lease_lost":
      return new LeaseLost(message, problem);
    case "cancel_requested":
      return new Cancelled(message, problem);
    default:
      return new WakepostError(message, problem);
  }
}

/** What the server keeps of an error is shorter. */
const TEXT_CHARS_MAX = 4_096;

/** An error with what caused it, as one line that JSON can carry. */
export function withCauses(error: unknown): string {
  const texts: string[] = [];
  // Bounded: a cause may be its own cause.
  for (let cause = error; cause !== undefined && texts.length < 8; ) {
    const text = cause instanceof Error ? cause.message || codeOf(cause) || cause.name : String(cause);
    texts.push(text);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return texts.join(": ").slice(0, TEXT_CHARS_MAX).toWellFormed();
}

/** A system error without a message, as a refused connection to several addresses is, still has a code. */
function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}

function sentence(problem: Problem): string {
  const code = problem.code === "" ? "" : ` ${problem.code}`;
  const fields = problem.errors.map((error) => `; ${error.field}: ${error.message}`).join("");
  return `${problem.detail || problem.title} (${problem.status}${code})${fields}`;
}
