"""Checking that a request is what its sender signed: Standard Webhooks, v1 and v1a."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: More signatures than this in one request is an attempt to make us work.
SIGNATURES_MAX = 16
#: The longest text of a signature: 64 bytes, written in hex.
SIGNATURE_CHARS_MAX = 128
#: More digits than this are not seconds.
TIME_DIGITS_MAX = 12

Headers = Mapping[str, Any] | Iterable[tuple[Any, Any]]
#: `whsec_…`, `whpk_…`, or one entry of `/.well-known/wakepost-keys`: as it was read, or as JSON.
Secret = str | Mapping[str, Any]


class VerificationError(Exception):
    """The request is not what its sender signed, or too old. The text is for logs, not for the sender."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        #: `missing`, `doubled`, `malformed`, `signature`, `timestamp` or `body`.
        self.reason = reason


def verify(
    headers: Headers,
    body: bytes,
    secret: Secret | Sequence[Secret],
    tolerance_s: int = 300,
    *,
    now: float | None = None,
) -> Any:
    """Checks a request and returns its body, read as JSON. Raises `VerificationError`.

    `body` is what came over the wire, byte for byte. `secret` is `whsec_…`, or the sender's public key:
    `whpk_…`, or your webhook's entry in `/.well-known/wakepost-keys`; several, where one is being replaced by
    another. Not the whole key set: the other keys in it sign for other people. Headers are a mapping or
    pairs; pairs are better, since they show a header that came twice.
    """
    if isinstance(body, str) or not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError("the body must be the bytes that came, not text or what was read from them")
    body = bytes(body)
    secrets = [secret] if isinstance(secret, (str, Mapping)) else list(secret)
    if not secrets:
        raise ValueError("a secret is needed")
    keys = [_Key(each) for each in secrets]
    by_name = _by_name(headers)
    # One set of names or the other, never mixed.
    svix_only = "svix-signature" in by_name and "webhook-signature" not in by_name
    prefix = "svix" if svix_only else "webhook"
    given = _one(by_name, f"{prefix}-signature")
    message_id = _one(by_name, f"{prefix}-id")
    time_text = _one(by_name, f"{prefix}-timestamp")
    signed_at = _seconds(time_text)
    signatures = _signatures(given)
    content = f"{message_id}.{time_text}.".encode() + body
    # Every key is tried, whether or not one before it fits.
    if not any([key.fits(content, signatures) for key in keys]):
        raise VerificationError("signature", "no signature fits")
    now = time.time() if now is None else now
    if abs(now - signed_at) > tolerance_s:
        raise VerificationError("timestamp", f"it was signed {now - signed_at:.0f} s ago")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise VerificationError("body", f"the body is not JSON: {error}") from error


class _Key:
    """A secret. Its form says which version it checks, so a public key is never taken for a secret."""

    def __init__(self, secret: Secret) -> None:
        # Never plain text, even if it is no key: everybody knows a public key, and could sign with its text.
        if isinstance(secret, Mapping) or secret.lstrip().startswith("{"):
            self.version = "v1a"
            self._key = _jwk(secret)
            _public_key(self._key)
            return
        # Supabase writes the version before the secret.
        if secret.startswith("v1,whsec_"):
            secret = secret[len("v1,") :]
        if secret.startswith("whsk_"):
            raise ValueError("the secret is the sender's private key; give its public key, whpk_…")
        self.version = "v1a" if secret.startswith("whpk_") else "v1"
        if self.version == "v1a":
            self._key = _decode_key(secret[len("whpk_") :]) or b""
            if len(self._key) != 32:
                raise ValueError("the secret must have 32 bytes in base64 after whpk_")
            _public_key(self._key)
            return
        if secret.startswith("whsec_"):
            self._key = _decode_key(secret[len("whsec_") :]) or b""
        else:
            decoded = _decode_key(secret)
            self._key = secret.encode() if decoded is None else decoded
        if not self._key:
            raise ValueError("the secret must have base64 after whsec_")

    def fits(self, content: bytes, signatures: list[tuple[str, bytes]]) -> bool:
        candidates = [value for version, value in signatures if version == self.version]
        if self.version == "v1":
            expected = hmac.new(self._key, content, hashlib.sha256).digest()
            # All of them, in a time that does not tell which one fits.
            return any([hmac.compare_digest(expected, value) for value in candidates])
        return any([_ed25519_fits(self._key, value, content) for value in candidates])


def _by_name(headers: Headers) -> dict[str, list[str]]:
    pairs = headers.items() if hasattr(headers, "items") else headers
    by_name: dict[str, list[str]] = {}
    for name, value in pairs:
        values = value if isinstance(value, (list, tuple)) else [value]
        by_name.setdefault(_text(name).lower(), []).extend(_text(each) for each in values)
    return by_name


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _one(by_name: dict[str, list[str]], name: str) -> str:
    values = by_name.get(name, [])
    if not values:
        raise VerificationError("missing", f"{name} is missing")
    if len(values) > 1:
        raise VerificationError("doubled", f"{name} is there more than once")
    text = values[0]
    if not text or not text.isascii() or not text.isprintable():
        raise VerificationError("malformed", f"{name} is not plain text")
    return text


def _seconds(text: str) -> int:
    if not (1 <= len(text) <= TIME_DIGITS_MAX and text.isascii() and text.isdigit()):
        raise VerificationError("malformed", "the time is not Unix seconds, in digits alone")
    return int(text)


def _signatures(header: str) -> list[tuple[str, bytes]]:
    items = header.split(" ")
    if len(items) > SIGNATURES_MAX:
        raise VerificationError("malformed", "there are too many signatures")
    found: list[tuple[str, bytes]] = []
    for item in items:
        version, comma, text = item.partition(",")
        if "," in text:
            # Servers join a header that came twice with a comma.
            raise VerificationError("doubled", "the signature header is there more than once")
        value = _decode_signature(text) if comma and version in ("v1", "v1a") else None
        if value is not None:
            found.append((version, value))
    if not found:
        raise VerificationError("malformed", "there is no v1 or v1a signature in base64")
    return found


def _decode_signature(text: str) -> bytes | None:
    """Base64 in its one canonical form, so that no second text of a signature passes for a new one."""
    if not text or len(text) > SIGNATURE_CHARS_MAX:
        return None
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return value if base64.b64encode(value).decode() == text else None


def _decode_key(text: str) -> bytes | None:
    """A key in base64, padded or not: people copy them by hand."""
    bare = text.rstrip("=")
    try:
        value = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return value if base64.b64encode(value).decode().rstrip("=") == bare else None


def _jwk(entry: Secret) -> bytes:
    """A public Ed25519 key as a key set has it (RFC 8037)."""
    if isinstance(entry, str):
        try:
            entry = json.loads(entry)
        except (ValueError, RecursionError):
            raise ValueError("the secret begins as JSON does, and is not") from None
    assert isinstance(entry, Mapping)  # it began with a brace
    if "keys" in entry:
        raise ValueError("the secret is a whole key set; give your webhook's entry in it")
    if entry.get("d") is not None:
        raise ValueError("the secret is the sender's private key; give its public key")
    fits = (
        entry.get("kty") == "OKP"
        and entry.get("crv") == "Ed25519"
        and entry.get("use") in (None, "sig")
        and entry.get("alg") in (None, "EdDSA", "Ed25519")
    )
    text = entry.get("x")
    # Canonical and in the alphabet of URLs, as key sets have it.
    key = b""
    if isinstance(text, str) and text.isascii() and not set(text) & set("+/="):
        key = _decode_key(text.replace("-", "+").replace("_", "/")) or b""
    if not fits or len(key) != 32:
        raise ValueError("the secret is a key of another kind; give an Ed25519 key for signatures")
    return key


def _public_key(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise RuntimeError(
            "to check Ed25519 signatures, install wakepost[ed25519]: pip install 'wakepost[ed25519]'"
        ) from None
    return Ed25519PublicKey.from_public_bytes(key)


def _ed25519_fits(key: bytes, signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        _public_key(key).verify(signature, content)
    except InvalidSignature:
        return False
    return True
