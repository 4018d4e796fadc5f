// Waiting for conditions, with an end to it.

/** Asks until the answer is something; fails after `ms`. */
export async function until(what, ask, ms = 20_000) {
  for (const end = Date.now() + ms; Date.now() < end; ) {
    const answer = await ask();
    if (answer) return answer;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited ${ms} ms in vain: ${what}`);
}

/** The job, once it has this status. */
export function jobThatIs(client, id, status) {
  return until(`${id} is ${status}`, async () => {
    const job = await client.getJob(id);
    return job.status === status ? job : undefined;
  });
}

/** A promise and how to fulfil it. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
