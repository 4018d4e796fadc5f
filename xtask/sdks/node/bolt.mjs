// Slack, by Bolt: what its receivers call. It cannot sign.

import bolt from "@slack/bolt";

export function verify({ secret, headers, text }) {
  bolt.verifySlackRequest({ signingSecret: secret, body: text, headers });
  return true;
}
