// SendGrid's own check of its event webhook. It cannot sign.

import { EventWebhook, EventWebhookHeader } from "@sendgrid/eventwebhook";

const webhook = new EventWebhook();
const SIGNATURE = EventWebhookHeader.SIGNATURE().toLowerCase();
const TIMESTAMP = EventWebhookHeader.TIMESTAMP().toLowerCase();

export function verify({ secret, headers, body }) {
  const key = webhook.convertPublicKeyToECDSA(secret);
  return webhook.verifySignature(key, body, headers[SIGNATURE], headers[TIMESTAMP]);
}
