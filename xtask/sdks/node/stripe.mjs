// Stripe's own check and its own maker of test headers.

import Stripe from "stripe";

const { webhooks } = new Stripe("sk_test_unused");

export function verify({ secret, headers, body }) {
  // Not constructEvent, which goes on to parse the body as JSON.
  return webhooks.signature.verifyHeader(body, headers["stripe-signature"], secret);
}

export function sign({ secret, time, text }) {
  const header = webhooks.generateTestHeaderString({ payload: text, secret, timestamp: time });
  return { headers: { "stripe-signature": header } };
}
