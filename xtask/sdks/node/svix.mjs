// Svix, which has header names of its own and takes the standard ones too.

import { Webhook } from "svix";

export function verify({ secret, headers, text }) {
  try {
    new Webhook(secret).verify(text, headers);
  } catch (error) {
    // It parses the body once the signature is found good, and cannot be told not to.
    if (!(error instanceof SyntaxError)) throw error;
  }
  return true;
}

export function sign({ secret, id, time, text }) {
  const signature = new Webhook(secret).sign(id, new Date(time * 1000), text);
  return {
    headers: { "svix-id": id, "svix-timestamp": String(time), "svix-signature": signature },
  };
}
