// How long to wait before the same call again, and waiting.

const FIRST_MS = 250;
const LAST_MS = 15_000;

/**
 * Doubles from a quarter of a second to 15 s, each spread over half to all of it, so that workers that lost their
 * server together do not come back together.
 */
export class Backoff {
  #tries = 0;

  /** The next wait. A server that says how long to wait is heeded, up to the longest wait there is. */
  nextMs(retryAfterS = 0): number {
    const whole = Math.min(FIRST_MS * 2 ** Math.min(this.#tries, 10), LAST_MS);
    this.#tries += 1;
    return Math.max(whole * (0.5 + Math.random() / 2), Math.min(retryAfterS * 1000, LAST_MS));
  }
}

/** Waits, or until the signal. It leaves nothing behind on a signal that lives longer. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}
