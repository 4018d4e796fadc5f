"""What `verify` accepts and refuses, also beside the libraries that others verify with."""

import base64
import datetime
import hashlib
import hmac
import importlib.util
import json
import sys
import time
import unittest
import unittest.mock
from pathlib import Path

from wakepost import VerificationError, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
AT = 1_614_265_330
GOOD = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


#: The cases that every SDK decides alike.
VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "signatures.json"


def has(module):
    return importlib.util.find_spec(module) is not None


def published(prefix="webhook"):
    """The specification's own example."""
    return {
        f"{prefix}-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        f"{prefix}-timestamp": str(AT),
        f"{prefix}-signature": GOOD,
    }


def signed(body=BODY, secret=SECRET, at=None, message_id="msg_1"):
    """A request signed here and now."""
    at = str(int(time.time()) if at is None else at)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    tag = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "Webhook-Id": message_id,
        "Webhook-Timestamp": at,
        "Webhook-Signature": "v1," + base64.b64encode(tag).decode(),
    }


class Verifying(unittest.TestCase):
    def accepts(self, headers, body=BODY, secret=SECRET, **more):
        return verify(headers, body, secret, now=AT, **more)

    def refuses(self, headers, reason, body=BODY, secret=SECRET, **more):
        with self.assertRaises(VerificationError) as caught:
            verify(headers, body, secret, **{"now": AT, **more})
        self.assertEqual(caught.exception.reason, reason, headers)
        self.assertNotIn(SECRET, str(caught.exception))

    def test_the_published_example_is_accepted_under_both_sets_of_names(self):
        for prefix in ("webhook", "svix"):
            self.assertEqual(self.accepts(published(prefix)), {"test": 2432232314})

    def test_headers_may_be_pairs_bytes_lists_or_a_message_in_any_case(self):
        from email.message import Message

        message = Message()
        for name, value in published().items():
            message[name.title()] = value
        pairs = [(name.upper().encode(), value.encode()) for name, value in published().items()]
        lists = {name: [value] for name, value in published().items()}
        for headers in (message, pairs, iter(pairs), lists):
            self.assertEqual(self.accepts(headers), {"test": 2432232314})

    def test_the_two_sets_of_names_are_never_mixed(self):
        mixed = published("svix")
        mixed["webhook-signature"] = mixed.pop("svix-signature")
        self.refuses(mixed, "missing")

    def test_one_good_signature_among_several_is_enough(self):
        zeros = base64.b64encode(bytes(32)).decode()
        for text in (f"v1,{zeros} {GOOD}", f"{GOOD} v1a,{zeros}", f"v1, v2,x junk {GOOD}"):
            self.accepts(published() | {"webhook-signature": text})

    def test_a_malformed_signature_is_refused(self):
        tag = GOOD.removeprefix("v1,")
        for bad in (
            "v1,",
            "v1",
            " ",
            tag,
            f"v2,{tag}",
            f"V1,{tag}",
            "v1," + tag.rstrip("="),
            "v1," + tag.replace("E=", "F="),
            f"v1,{tag}=",
            f"v1,{tag}\n",
            f"v1,{tag}é",
            "v1,AAAA " * 16 + GOOD,
        ):
            with self.assertRaises(VerificationError, msg=bad) as caught:
                self.accepts(published() | {"webhook-signature": bad})
            self.assertEqual(caught.exception.reason, "malformed", bad)
        self.refuses(published() | {"webhook-signature": f"v1,{tag[:40]}"}, "signature")
        self.refuses(published() | {"webhook-signature": f"v1a,{tag}"}, "signature")

    def test_a_doubled_header_is_refused_in_every_way_it_can_arrive(self):
        for name, value in published().items():
            pairs = [*published().items(), (name, value)]
            self.refuses(pairs, "doubled")
            self.refuses(published() | {name: [value, value]}, "doubled")
            self.refuses(published() | {name.upper(): value}, "doubled")
        joined = f"{GOOD}, {GOOD}"
        self.refuses(published() | {"webhook-signature": joined}, "doubled")
        self.refuses(published() | {"webhook-timestamp": f"{AT}, {AT}"}, "malformed")

    def test_a_missing_or_empty_header_is_refused(self):
        for name in published():
            without = published()
            del without[name]
            self.refuses(without, "missing")
            self.refuses(published() | {name: ""}, "malformed")

    def test_only_plain_digits_are_a_time(self):
        for bad in ("1614265330x", "-1614265330", "+1614265330", " 1614265330", "1614265330 "):
            self.refuses(published() | {"webhook-timestamp": bad}, "malformed")
        for bad in ("1614265330000", "1614265330.0", "1e9", "0x10", "\uff11\uff16"):
            self.refuses(published() | {"webhook-timestamp": bad}, "malformed")

    def test_a_time_too_far_either_way_is_refused(self):
        for now in (AT - 300, AT + 300):
            verify(published(), BODY, SECRET, now=now)
        for now in (AT - 301, AT + 301):
            self.refuses(published(), "timestamp", now=now)
        verify(published(), BODY, SECRET, 3600, now=AT + 3000)

    def test_anything_changed_on_the_way_is_refused(self):
        self.refuses(published(), "signature", body=BODY + b" ")
        self.refuses(published() | {"webhook-id": "msg_other"}, "signature")
        self.refuses(published() | {"webhook-timestamp": str(AT + 1)}, "signature")
        self.refuses(published(), "signature", secret="whsec_" + "A" * 32)

    def test_an_old_secret_and_its_successor_both_count(self):
        other = "whsec_" + base64.b64encode(b"x" * 24).decode()
        for secrets in ([SECRET, other], [other, SECRET], (f"v1,{SECRET}", other)):
            self.accepts(published(), secret=secrets)
        self.refuses(published(), "signature", secret=[other])

    def test_a_secret_that_is_no_secret_is_told_at_once_and_not_repeated(self):
        for bad in ("", "whsec_", "whsec_!!", "whpk_AAAA", "whsk_AAAA", []):
            with self.assertRaises(ValueError) as caught:
                self.accepts(published(), secret=bad)
            self.assertNotIn("AAAA", str(caught.exception))

    def test_a_body_that_was_read_already_is_a_mistake_of_the_program(self):
        for body in (BODY.decode(), json.loads(BODY)):
            with self.assertRaises(TypeError):
                self.accepts(published(), body=body)

    def test_a_verified_body_that_is_not_json_is_told_apart(self):
        for body in (b"not json", b"\xff", b"[" * 100_000):
            headers = signed(body)
            with self.assertRaises(VerificationError) as caught:
                verify(headers, body, SECRET)
            self.assertEqual(caught.exception.reason, "body")


@unittest.skipUnless(has("cryptography"), "cryptography is not installed")
class VerifyingWithAPublicKey(unittest.TestCase):
    def setUp(self):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self.private = Ed25519PrivateKey.generate()
        raw = self.private.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        self.public = "whpk_" + base64.b64encode(raw).decode()
        self.raw = raw

    def signed(self, version="v1a"):
        tag = self.private.sign(f"msg_1.{AT}.".encode() + BODY)
        text = f"{version}," + base64.b64encode(tag).decode()
        headers = {"webhook-id": "msg_1", "webhook-timestamp": str(AT)}
        return {**headers, "webhook-signature": text}

    def test_what_the_private_key_signed_is_accepted_and_nothing_else(self):
        self.assertEqual(verify(self.signed(), BODY, self.public, now=AT), {"test": 2432232314})
        verify(self.signed(), BODY, [SECRET, self.public], now=AT)
        for headers, body in (
            (self.signed(), BODY + b" "),
            (self.signed() | {"webhook-id": "msg_2"}, BODY),
            (self.signed("v1"), BODY),
        ):
            with self.assertRaises(VerificationError):
                verify(headers, body, self.public, now=AT)

    def test_a_public_key_is_never_taken_for_a_shared_secret(self):
        shared = "whsec_" + base64.b64encode(self.raw).decode()
        with self.assertRaises(VerificationError):
            verify(signed(secret=shared), BODY, self.public)


class WithTheSharedVectors(unittest.TestCase):
    def test_the_same_signatures_are_believed_as_by_the_other_sdks(self):
        cases = json.loads(VECTORS.read_text())
        self.assertGreater(len(cases), 70)
        for case in cases:
            # Without cryptography such a key is refused with a word on what to install: tested below.
            if case.get("ed25519") and not has("cryptography"):
                continue
            pairs = [tuple(pair) for pair in case["headers"]]
            try:
                verify(pairs, case["body"].encode(), case["secrets"], now=case["now"])
                believed = True
            except VerificationError:
                believed = False
            self.assertEqual(believed, case["accepted"], case["name"])

    def test_without_cryptography_a_public_key_says_what_to_install(self):
        hidden = dict.fromkeys(
            name for name in sys.modules if name.partition(".")[0] == "cryptography"
        )
        blocked = {"cryptography.hazmat.primitives.asymmetric.ed25519": None, **hidden}
        entry = {"kty": "OKP", "crv": "Ed25519", "x": "A" * 43}
        for key in ("whpk_" + "A" * 43 + "=", entry, json.dumps(entry)):
            with (
                unittest.mock.patch.dict(sys.modules, blocked),
                self.assertRaisesRegex(RuntimeError, r"pip install 'wakepost\[ed25519\]'"),
            ):
                verify(published(), BODY, key, now=AT)


class WithAKeyOfTheKeySet(unittest.TestCase):
    def test_what_is_no_public_key_for_signatures_is_told_at_once(self):
        good = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "x": "A" * 43}
        for change, why in (
            ({"kty": "EC"}, "another kind"),
            ({"crv": "X25519"}, "another kind"),
            ({"use": "enc"}, "another kind"),
            ({"alg": "HS256"}, "another kind"),
            ({"x": "AAAA"}, "another kind"),
            ({"x": "A" * 43 + "="}, "another kind"),
            ({"x": "+" * 43}, "another kind"),
            ({"x": None}, "another kind"),
            ({"d": "A" * 43}, "private key"),
            ({"keys": [good]}, "whole key set"),
        ):
            for entry in (good | change, json.dumps(good | change)):
                with self.assertRaisesRegex(ValueError, why, msg=str(change)) as caught:
                    verify(published(), BODY, entry, now=AT)
                self.assertNotIn("AAAA", str(caught.exception))
        for text in ("{", " {not json}", "{}"):
            with self.assertRaises(ValueError):
                verify(published(), BODY, text, now=AT)


class BesideOtherLibraries(unittest.TestCase):
    @unittest.skipUnless(has("standardwebhooks"), "standardwebhooks is not installed")
    def test_what_standardwebhooks_signs_we_accept_and_the_other_way_round(self):
        from standardwebhooks.webhooks import Webhook

        at = datetime.datetime.now(tz=datetime.timezone.utc)
        text = Webhook(SECRET).sign("msg_1", at, BODY.decode())
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": text,
        }
        self.assertEqual(verify(headers, BODY, SECRET), {"test": 2432232314})
        ours = {name.lower(): value for name, value in signed().items()}
        self.assertEqual(Webhook(SECRET).verify(BODY, ours), {"test": 2432232314})

    @unittest.skipUnless(has("svix"), "svix is not installed")
    def test_what_svix_signs_we_accept_and_the_other_way_round(self):
        from svix.webhooks import Webhook

        at = datetime.datetime.now(tz=datetime.timezone.utc)
        text = Webhook(SECRET).sign("msg_1", at, BODY.decode())
        headers = {
            "svix-id": "msg_1",
            "svix-timestamp": str(int(at.timestamp())),
            "svix-signature": text,
        }
        self.assertEqual(verify(headers, BODY, SECRET), {"test": 2432232314})
        ours = {name.lower(): value for name, value in signed().items()}
        # Later versions of it return nothing; what counts is that it does not raise.
        Webhook(SECRET).verify(BODY, ours)
