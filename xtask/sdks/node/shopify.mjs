// Shopify's own check. It cannot sign.

import "@shopify/shopify-api/adapters/node";
import { ApiVersion, LogSeverity, shopifyApi } from "@shopify/shopify-api";

export async function verify({ secret, headers, text }) {
  const shopify = shopifyApi({
    apiKey: "unused",
    apiSecretKey: secret,
    apiVersion: Object.values(ApiVersion).at(-1),
    hostName: "hooks.example.com",
    isEmbeddedApp: false,
    logger: { level: LogSeverity.Error },
  });
  const rawRequest = { method: "POST", url: "/", headers };
  const verdict = await shopify.webhooks.validate({ rawBody: text, rawRequest, rawResponse: {} });
  if (!verdict.valid) throw new Error(verdict.reason);
  return true;
}
