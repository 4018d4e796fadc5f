// An agent that welcomes whoever signed up: one mail each, whatever happens to it.

import { Client, done, GiveUp, NotDone, Worker } from "wakepost";

interface SignedUp {
  data: { name: string; email: string };
}

const worker = new Worker(new Client(), { name: `welcome-${process.pid}`, leaseS: 2, waitS: 1 }, async (job) => {
  if (job.envelope?.event_type !== "user.signed_up") throw new GiveUp("this agent only welcomes people");
  const { name, email } = (job.envelope.data as SignedUp).data;
  await job.progress({ message: `writing to ${name}`, percent: 10 });
  const mail = await job.effect("email:welcome", (key) => sendMail(email, `Welcome, ${name}!`, key), {
    description: `Sends a welcome to ${email}`,
  });
  // For the example: the first run dies at the worst moment but one, with the mail sent and the job not done.
  if (job.attempt === 1 && process.env["CRASH"]) process.kill(process.pid, "SIGKILL");
  return done({ result: { mail }, cost: 0.002 });
});

await worker.run();

async function sendMail(to: string, text: string, key: string): Promise<string> {
  const answer = await fetch(process.env["MAIL_URL"] ?? "", {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify({ to, text }),
  });
  // A refusal is a certain no. After a broken connection nobody would know, and the effect would be in doubt.
  if (answer.status >= 400 && answer.status < 500) throw new NotDone(`the mail was refused: ${answer.status}`);
  if (!answer.ok) throw new Error(`the mail server answered ${answer.status}`);
  return ((await answer.json()) as { id: string }).id;
}
