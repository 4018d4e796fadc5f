// GitHub, by Octokit.

import { Webhooks } from "@octokit/webhooks";

export function verify({ secret, headers, text }) {
  return new Webhooks({ secret }).verify(text, headers["x-hub-signature-256"]);
}

export async function sign({ secret, id, text }) {
  const signature = await new Webhooks({ secret }).sign(text);
  return { headers: { "x-hub-signature-256": signature, "x-github-delivery": id } };
}
