// Standard Webhooks, checked: `v1` (HMAC-SHA256) and `v1a` (Ed25519) over `{id}.{time}.{body}`.

import { createHmac, createPublicKey, type KeyObject, timingSafeEqual, verify as check } from "node:crypto";

/** More signatures or secrets than this in one request is an attempt to make us work. */
const CANDIDATES_MAX = 16;
/** The longest text of a signature. */
const SIGNATURE_CHARS_MAX = 128;
/** How far a signed time may be from now, unless told otherwise. */
const TOLERANCE_S = 300;

/** Headers as `fetch` or `node:http` has them. */
export type HeadersLike = Headers | Record<string, string | readonly string[] | undefined>;

/** A public Ed25519 key, as an entry of `/.well-known/wakepost-keys` has it. */
export interface PublicJwk {
  kty: string;
  crv?: string;
  x?: string;
  [more: string]: unknown;
}

/** `whsec_…`, `whpk_…`, or one entry of the key set: as it was read, or as JSON. */
export type Secret = string | PublicJwk;

/** How strict to be. */
export interface VerifyOptions {
  /** How far the signed time may be from now, in either direction (300). */
  toleranceS?: number;
  /** The time, in milliseconds; else the clock's. */
  now?: number;
}

/** What a good signature vouches for. */
export interface Verified {
  /** The message's id: the same on every attempt to deliver it. */
  id: string;
  signedAt: Date;
  /** Which of the secrets it was. */
  secretIndex: number;
}

/** The request is not what the sender signed, or not now. Answer 401. */
export class SignatureError extends Error {
  override name = "SignatureError";
}

/**
 * Checks who sent a request, over the body's exact bytes: read them before anything parses them.
 *
 * @param secrets `whsec_…`, or a public key: `whpk_…`, or your webhook's entry in `/.well-known/wakepost-keys`; while
 *   they are rotated, the old and the new. Not the whole key set: the other keys in it sign for other people.
 * @throws {SignatureError} if no secret fits, or the signed time is too far from now.
 * @throws {TypeError} if a secret cannot be one.
 */
export function verify(
  headers: HeadersLike,
  body: string | Uint8Array,
  secrets: Secret | readonly Secret[],
  options: VerifyOptions = {},
): Verified {
  const keys = (isList(secrets) ? secrets : [secrets]).map(readKey);
  if (keys.length === 0 || keys.length > CANDIDATES_MAX) {
    throw new TypeError(`give 1 to ${CANDIDATES_MAX} secrets`);
  }
  const names = namesIn(headers);
  const signatures = readSignatures(names.signature, header(headers, names.signature));
  const id = header(headers, names.id);
  const time = header(headers, names.time);
  // Digits alone: a sign, a fraction or a number too long for seconds is not a time that was signed by the rules.
  if (!/^[0-9]{1,12}$/.test(time)) {
    throw new SignatureError(`${names.time} must be a Unix time in seconds, in digits alone`);
  }
  const content = Buffer.concat([Buffer.from(`${id}.${time}.`), Buffer.from(body)]);
  const secretIndex = keys.findIndex((key) => fits(key, content, signatures));
  if (secretIndex < 0) throw new SignatureError("no signature fits");
  const signedAtMs = Number(time) * 1000;
  const toleranceMs = (options.toleranceS ?? TOLERANCE_S) * 1000;
  // Asked the other way round, a tolerance that is not a number would let everything pass.
  if (!(Math.abs((options.now ?? Date.now()) - signedAtMs) <= toleranceMs)) {
    throw new SignatureError("the signed time is too far from now");
  }
  return { id, signedAt: new Date(signedAtMs), secretIndex };
}

/** A key's form alone says which version it checks, so that a public key never passes for a shared secret. */
type Key = { version: "v1"; secret: Buffer } | { version: "v1a"; key: KeyObject };

interface Signature {
  version: string;
  bytes: Buffer;
}

interface Names {
  id: string;
  time: string;
  signature: string;
}

const WEBHOOK: Names = { id: "webhook-id", time: "webhook-timestamp", signature: "webhook-signature" };
const SVIX: Names = { id: "svix-id", time: "svix-timestamp", signature: "svix-signature" };

/** One set of names or the other, never mixed. */
function namesIn(headers: HeadersLike): Names {
  const has = (name: string) => valuesOf(headers, name).length > 0;
  return has(SVIX.signature) && !has(WEBHOOK.signature) ? SVIX : WEBHOOK;
}

/** A header that must be there once, and not empty. */
function header(headers: HeadersLike, name: string): string {
  const [value, ...others] = valuesOf(headers, name);
  if (value === undefined) throw new SignatureError(`${name} is missing`);
  if (others.length > 0) throw new SignatureError(`${name} is there more than once`);
  if (!/^[\x20-\x7e]+$/.test(value)) throw new SignatureError(`${name} is not plain text`);
  return value;
}

function valuesOf(headers: HeadersLike, name: string): string[] {
  if (headers instanceof Headers) {
    const value = headers.get(name);
    return value === null ? [] : [value];
  }
  return Object.entries(headers)
    .filter(([given]) => given.toLowerCase() === name)
    .flatMap(([, value]) => value ?? []);
}

/** The well-formed signatures in the header. Those of versions that are not known may stand beside them. */
function readSignatures(name: string, text: string): Signature[] {
  const items = text.split(" ");
  // A header that was sent twice arrives as one, joined by a comma and a space.
  const joined = items.some((item) => item.endsWith(",") || item.split(",").length > 2);
  if (items.length > CANDIDATES_MAX || joined) {
    throw new SignatureError(`${name} must be 1 to ${CANDIDATES_MAX} signatures, with spaces between`);
  }
  const signatures = items.flatMap((item) => {
    const [version, encoded] = item.split(",");
    const bytes = encoded === undefined ? undefined : decodeSignature(encoded);
    return version === undefined || bytes === undefined ? [] : { version, bytes };
  });
  if (signatures.length === 0) {
    throw new SignatureError(`${name} must have signatures, each v1, or v1a, and base64`);
  }
  return signatures;
}

function fits(key: Key, content: Buffer, signatures: Signature[]): boolean {
  const candidates = signatures.filter((signature) => signature.version === key.version);
  if (key.version === "v1a") {
    return candidates.some(({ bytes }) => check(null, content, key.key, bytes));
  }
  const expected = createHmac("sha256", key.secret).update(content).digest();
  return candidates.some(({ bytes }) => {
    return bytes.length === expected.length && timingSafeEqual(bytes, expected);
  });
}

/** `Array.isArray` does not know lists that are only read. */
function isList(secrets: Secret | readonly Secret[]): secrets is readonly Secret[] {
  return Array.isArray(secrets);
}

/** Reads a key as the scheme's own libraries do: `whsec_` or nothing, then base64; other text as it is. */
function readKey(text: Secret): Key {
  // Never plain text, even if it is no key: everybody knows a public key, and could sign with its text.
  if (typeof text !== "string" || text.trimStart().startsWith("{")) return readJwk(text);
  // Supabase writes the version before the secret.
  const secret = text.startsWith("v1,whsec_") ? text.slice(3) : text;
  if (secret.startsWith("whsk_")) {
    throw new TypeError("a secret is the sender's private key: give its public key, whpk_…");
  }
  if (secret.startsWith("whpk_")) {
    const bytes = decodeKey(secret.slice(5));
    if (bytes?.length !== 32) throw new TypeError("a secret must have 32 bytes in base64 after whpk_");
    return publicKey(bytes);
  }
  const shared = secret.startsWith("whsec_")
    ? decodeKey(secret.slice(6))
    : (decodeKey(secret) ?? Buffer.from(secret));
  if (shared === undefined || shared.length === 0) {
    throw new TypeError("a secret must have base64 after whsec_");
  }
  return { version: "v1", secret: shared };
}

/** Reads a key of a key set (RFC 8037). */
function readJwk(secret: Secret): Key {
  let entry: PublicJwk;
  try {
    entry = typeof secret === "string" ? JSON.parse(secret) : secret;
  } catch {
    throw new TypeError("a secret begins as JSON does, and is not");
  }
  if ("keys" in entry) throw new TypeError("a secret is a whole key set: give your webhook's entry in it");
  if ((entry["d"] ?? null) !== null) throw new TypeError("a secret is the sender's private key: give its public key");
  const fits =
    entry.kty === "OKP" &&
    entry.crv === "Ed25519" &&
    (entry["use"] ?? "sig") === "sig" &&
    ["EdDSA", "Ed25519"].includes(String(entry["alg"] ?? "EdDSA"));
  const bytes = Buffer.from(typeof entry.x === "string" ? entry.x : "", "base64url");
  if (!fits || bytes.length !== 32 || bytes.toString("base64url") !== entry.x) {
    throw new TypeError("a secret is a key of another kind: give an Ed25519 key for signatures");
  }
  return publicKey(bytes);
}

function publicKey(bytes: Buffer): Key {
  const jwk = { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") };
  return { version: "v1a", key: createPublicKey({ key: jwk, format: "jwk" }) };
}

/** Base64 in its one canonical form, so that no second text of a signature can pass for a new one. */
function decodeSignature(text: string): Buffer | undefined {
  if (text.length > SIGNATURE_CHARS_MAX) return undefined;
  const bytes = Buffer.from(text, "base64");
  return bytes.length > 0 && bytes.toString("base64") === text ? bytes : undefined;
}

/** Base64 with its padding or without: people copy keys by hand. */
function decodeKey(text: string): Buffer | undefined {
  const bare = text.replace(/=+$/, "");
  const bytes = Buffer.from(bare, "base64");
  return bytes.toString("base64").replace(/=+$/, "") === bare ? bytes : undefined;
}
