// Square's own check. It cannot sign.

import { WebhooksHelper } from "square";

export function verify({ secret, url, headers, text }) {
  return WebhooksHelper.verifySignature({
    requestBody: text,
    signatureHeader: headers["x-square-hmacsha256-signature"],
    signatureKey: secret,
    notificationUrl: url,
  });
}
