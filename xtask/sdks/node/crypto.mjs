// Standard Webhooks' `v1a`, as its specification says it, by Node's own Ed25519: no library of the scheme has it yet.

import { createPublicKey, verify as verifies } from "node:crypto";

// What stands before the 32 bytes of a public key in the form that Node reads (RFC 8410).
const HEAD = Buffer.from("302a300506032b6570032100", "hex");

export function verify({ secret, headers, body }) {
  const key = createPublicKey({
    key: Buffer.concat([HEAD, Buffer.from(secret.replace(/^whpk_/, ""), "base64")]),
    format: "der",
    type: "spki",
  });
  const signed = Buffer.concat([
    Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`),
    body,
  ]);
  return headers["webhook-signature"].split(" ").some((one) => {
    const [version, signature] = one.split(",");
    return version === "v1a" && verifies(null, signed, key, Buffer.from(signature, "base64"));
  });
}
