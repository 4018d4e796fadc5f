// What the verifier accepts and refuses, also beside the scheme's own libraries.

import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { test } from "node:test";

import { Webhook } from "standardwebhooks";
import { Webhook as Svix } from "svix";
import { SignatureError, verify } from "wakepost";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY = '{"test": 2432232314}';
const AT = 1_614_265_330;
const GOOD = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const VECTOR = {
  "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
  "webhook-timestamp": `${AT}`,
  "webhook-signature": GOOD,
};

const check = (changes = {}, secrets = SECRET, options = {}) =>
  verify({ ...VECTOR, ...changes }, BODY, secrets, { now: AT * 1000, ...options });
const refuses = (changes, secrets, options) =>
  assert.throws(() => check(changes, secrets, options), SignatureError, JSON.stringify(changes));

test("the published vector is accepted, whatever its headers and body come as", () => {
  const expected = { id: VECTOR["webhook-id"], signedAt: new Date(AT * 1000), secretIndex: 0 };
  assert.deepEqual(check(), expected);
  const now = AT * 1000;
  assert.deepEqual(verify(new Headers(VECTOR), Buffer.from(BODY), [SECRET], { now }), expected);
  const shouted = Object.fromEntries(Object.entries(VECTOR).map(([name, value]) => [name.toUpperCase(), [value]]));
  assert.deepEqual(verify(shouted, new TextEncoder().encode(BODY), SECRET, { now }), expected);
  for (const secret of [SECRET.slice(6), `v1,${SECRET}`, `${SECRET}`]) check({}, secret);
});

test("a signature header that is bent is refused", () => {
  for (const signature of [
    "",
    "v1,",
    "v1",
    GOOD.slice(3),
    GOOD.slice(0, -1),
    GOOD.slice(0, -5),
    GOOD.replace("v1,", "v2,"),
    GOOD.replace("v1,", "v1a,"),
    GOOD.replace("g", "h"),
    `${GOOD}=`,
    `${GOOD.slice(0, -2)}F=`,
    ` ${GOOD},`,
    "v1,AAAA",
    `v1,${"A".repeat(200)}`,
    `v1,é${GOOD}`,
    [GOOD, GOOD],
    Array(17).fill(GOOD).join(" "),
  ]) {
    refuses({ "webhook-signature": signature });
  }
  refuses({ "webhook-signature": undefined });
  refuses({ "Webhook-Signature": GOOD });
});

test("of several signatures one that is good is enough", () => {
  for (const signature of [`v1,AAAA ${GOOD}`, `${GOOD} v1,AAAA`, `v9,zz ${GOOD}`, `v1a,AAAA ${GOOD}`]) {
    check({ "webhook-signature": signature });
  }
});

test("a header that was sent twice is refused, also where it arrives joined", () => {
  const other = `v1,${randomBytes(32).toString("base64")}`;
  for (const [first, second] of [[other, GOOD], [GOOD, other], [GOOD, GOOD], ["v1", GOOD]]) {
    const headers = new Headers({ ...VECTOR, "webhook-signature": first });
    headers.append("webhook-signature", second);
    assert.throws(() => verify(headers, BODY, SECRET, { now: AT * 1000 }), SignatureError);
  }
  for (const name of ["webhook-id", "webhook-timestamp"]) {
    const headers = new Headers(VECTOR);
    headers.append(name, VECTOR[name]);
    assert.throws(() => verify(headers, BODY, SECRET, { now: AT * 1000 }), SignatureError);
  }
});

test("a time that is no plain number of seconds is refused", () => {
  // Each is signed well, and some are even this moment to a lenient reader: the form alone is what is wrong.
  const hex = `0x${AT.toString(16)}`;
  const bent = [hex, ` ${AT}`, `${AT} `, `+${AT}`, `-${AT}`, `${AT}x`, `${AT}.0`, `${AT / 1e9}e9`, `${AT}123`];
  for (const time of bent) {
    refuses({ "webhook-timestamp": time, "webhook-signature": signedFor(time) });
  }
  for (const time of ["", "１", `${AT},${AT}`, `000${AT}`]) refuses({ "webhook-timestamp": time });
  check({ "webhook-timestamp": `00${AT}`, "webhook-signature": signedFor(`00${AT}`) });
  refuses({ "webhook-timestamp": [`${AT}`, `${AT}`] });
  refuses({ "webhook-timestamp": undefined });
  assert.equal(signedFor(`${AT}`), GOOD);
});

test("a time too far from now is refused, in both directions", () => {
  for (const now of [AT - 300, AT + 300]) check({}, SECRET, { now: now * 1000 });
  for (const now of [AT - 301, AT + 301, Number.NaN]) refuses({}, SECRET, { now: now * 1000 });
  check({}, SECRET, { now: (AT + 10) * 1000, toleranceS: 10 });
  refuses({}, SECRET, { now: (AT + 11) * 1000, toleranceS: 10 });
  refuses({}, SECRET, { toleranceS: Number.NaN });
});

test("what was changed on its way is refused", () => {
  refuses({ "webhook-id": "msg_other" });
  refuses({ "webhook-timestamp": `${AT + 1}` });
  refuses({}, "whsec_AAAA");
  assert.throws(() => verify(VECTOR, `${BODY} `, SECRET, { now: AT * 1000 }), SignatureError);
});

test("while secrets are rotated, either is good, and it is told which it was", () => {
  assert.equal(check({}, ["whsec_AAAA", SECRET]).secretIndex, 1);
  assert.equal(check({}, [SECRET, "whsec_AAAA"]).secretIndex, 0);
  refuses({}, ["whsec_AAAA", "whsec_BBBB"]);
});

test("a secret that cannot be one is the receiver's mistake, and is not repeated", () => {
  for (const secret of ["", "whsec_", "whsec_!!", "whpk_AAAA", "whsk_AAAA", [], Array(17).fill(SECRET)]) {
    assert.throws(
      () => check({}, secret),
      (error) => error instanceof TypeError && !/AAAA|!!/.test(error.message),
    );
  }
});

test("a public key checks what its private key signed, and never passes for a shared secret", () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const raw = Buffer.from(publicKey.export({ format: "jwk" }).x, "base64url");
  const whpk = `whpk_${raw.toString("base64")}`;
  const content = `${VECTOR["webhook-id"]}.${AT}.${BODY}`;
  const signature = `v1a,${sign(null, Buffer.from(content), privateKey).toString("base64")}`;
  check({ "webhook-signature": signature }, whpk);
  check({ "webhook-signature": `${GOOD} ${signature}` }, [SECRET, whpk]);
  refuses({ "webhook-signature": signature.replace("v1a,", "v1,") }, whpk);
  refuses({ "webhook-signature": signature, "webhook-id": "other" }, whpk);
  refuses({ "webhook-signature": signature.slice(0, -8) }, whpk);
  // Whoever knows the public key could make this one.
  const forged = new Webhook(raw.toString("base64")).sign(VECTOR["webhook-id"], new Date(AT * 1000), BODY);
  refuses({ "webhook-signature": forged }, whpk);
});

test("both names of the headers are known, and never mixed", () => {
  const svix = Object.fromEntries(
    Object.entries(VECTOR).map(([name, value]) => [name.replace("webhook", "svix"), value]),
  );
  const now = AT * 1000;
  assert.equal(verify(svix, BODY, SECRET, { now }).id, VECTOR["webhook-id"]);
  const mixed = { ...svix, "svix-id": undefined, "webhook-id": VECTOR["webhook-id"] };
  assert.throws(() => verify(mixed, BODY, SECRET, { now }), SignatureError);
});

test("it agrees with the scheme's own libraries", () => {
  const random = (n) => randomBytes(n).toString("base64");
  for (let round = 0; round < 200; round++) {
    const secret = `whsec_${random(24 + (round % 40))}`;
    const body = JSON.stringify({ round, text: random(round * 3), more: "é☃" });
    const id = `msg_${round}`;
    const at = new Date(Math.floor(Date.now() / 1000) * 1000);
    for (const [library, prefix] of [[new Webhook(secret), "webhook"], [new Svix(secret), "svix"]]) {
      const headers = {
        [`${prefix}-id`]: id,
        [`${prefix}-timestamp`]: `${at.getTime() / 1000}`,
        [`${prefix}-signature`]: library.sign(id, at, body),
      };
      assert.equal(verify(headers, body, secret).id, id);
      library.verify(body, headers);
      const spoiled = `${body} `;
      assert.throws(() => verify(headers, spoiled, secret), SignatureError);
      assert.throws(() => library.verify(spoiled, headers));
    }
  }
});

/** The signature of the vector with another text for its time. */
function signedFor(time) {
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`${VECTOR["webhook-id"]}.${time}.${BODY}`);
  return `v1,${signature.digest("base64")}`;
}
