// The reference library of Standard Webhooks.

import { Webhook } from "standardwebhooks";

export function verify({ secret, headers, text }) {
  new Webhook(secret).verify(text, headers, { jsonParse: false });
  return true;
}

export function sign({ secret, id, time, text }) {
  const signature = new Webhook(secret).sign(id, new Date(time * 1000), text);
  return {
    headers: {
      "webhook-id": id,
      "webhook-timestamp": String(time),
      "webhook-signature": signature,
    },
  };
}
