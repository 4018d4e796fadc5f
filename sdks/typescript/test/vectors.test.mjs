// The cases that the verifiers of all SDKs decide alike, and the keys of a key set.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { SignatureError, verify } from "wakepost";

const VECTORS = new URL("../../vectors/signatures.json", import.meta.url);

/** Headers as `node:http` has them: one that came twice has both values. */
function gathered(pairs) {
  const headers = {};
  for (const [name, value] of pairs) (headers[name] ??= []).push(value);
  return headers;
}

test("the same signatures are believed as by the other SDKs", async () => {
  const cases = JSON.parse(await readFile(VECTORS, "utf8"));
  assert.ok(cases.length > 70);
  for (const { name, headers, body, secrets, now, accepted } of cases) {
    const check = () => verify(gathered(headers), body, secrets, { now: now * 1000 });
    if (accepted) assert.doesNotThrow(check, name);
    else assert.throws(check, SignatureError, name);
  }
});

test("what is no public key for signatures is the receiver's mistake, and is not repeated", () => {
  const good = { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", x: "A".repeat(43) };
  const check = (entry) => verify({}, "", entry);
  for (const [change, why] of [
    [{ kty: "EC" }, /another kind/],
    [{ crv: "X25519" }, /another kind/],
    [{ use: "enc" }, /another kind/],
    [{ alg: "HS256" }, /another kind/],
    [{ x: "AAAA" }, /another kind/],
    [{ x: `${"A".repeat(43)}=` }, /another kind/],
    [{ x: "+".repeat(43) }, /another kind/],
    [{ x: undefined }, /another kind/],
    [{ d: "A".repeat(43) }, /private key/],
    [{ keys: [good] }, /whole key set/],
  ]) {
    const entry = { ...good, ...change };
    for (const given of [entry, JSON.stringify(entry), [entry]]) {
      assert.throws(
        () => check(given),
        (error) => error instanceof TypeError && why.test(error.message) && !error.message.includes("AAAA"),
        JSON.stringify(change),
      );
    }
  }
  for (const text of ["{", " {not json}", "{}"]) assert.throws(() => check(text), TypeError);
  // It is a key; what is missing is a request.
  assert.throws(() => check(good), SignatureError);
});
