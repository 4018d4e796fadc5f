// SIGTERM and SIGINT, as a worker understands them.

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Calls `stop` at the first signal; a second ends the process as if nobody listened. Returns how to end this. */
export function onSignals(stop: () => void): () => void {
  let asked = false;
  const hear = (signal: NodeJS.Signals) => {
    if (!asked) {
      asked = true;
      return stop();
    }
    ignore();
    process.kill(process.pid, signal);
  };
  const ignore = () => {
    for (const signal of SIGNALS) process.off(signal, hear);
  };
  for (const signal of SIGNALS) process.on(signal, hear);
  return ignore;
}
