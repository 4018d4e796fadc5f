// Twilio's own check: of the form, or of the body's hash in the address.

import twilio from "twilio";

export function verify({ secret, url, headers, text }) {
  const signature = headers["x-twilio-signature"];
  if (new URL(url).searchParams.has("bodySHA256")) {
    return twilio.validateRequestWithBody(secret, signature, url, text);
  }
  return twilio.validateRequest(secret, signature, url, fields(text));
}

export function sign({ secret, url, headers, text }) {
  const isForm = headers["content-type"] === "application/x-www-form-urlencoded";
  if (text !== "" && !isForm) {
    const hash = twilio.getExpectedBodyHash(text);
    url += `${url.includes("?") ? "&" : "?"}bodySHA256=${hash}`;
    text = "";
  }
  const signature = twilio.getExpectedTwilioSignature(secret, url, fields(text));
  return { url, headers: { "x-twilio-signature": signature } };
}

// As body parsers do it: a field that is there more than once is a list.
function fields(form) {
  const all = new URLSearchParams(form);
  const entries = [...new Set(all.keys())].map((name) => {
    const values = all.getAll(name);
    return [name, values.length === 1 ? values[0] : values];
  });
  return Object.fromEntries(entries);
}
