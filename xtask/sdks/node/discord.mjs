// Discord's own check of interactions. It cannot sign.

import { verifyKey } from "discord-interactions";

export function verify({ secret, headers, body }) {
  const signature = headers["x-signature-ed25519"];
  return verifyKey(body, signature, headers["x-signature-timestamp"], secret);
}
