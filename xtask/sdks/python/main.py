"""One question per line in, one answer per line out, both JSON, until the input ends.

Every SDK has a `verify` and a `sign`. An SDK that raises refuses.
"""

import base64
import json
import sys
from datetime import datetime, timezone
from importlib import metadata

import standardwebhooks
import stripe
import svix.webhooks
from slack_sdk.signature import SignatureVerifier


class Stripe:
    @staticmethod
    def verify(request):
        header = request["headers"]["stripe-signature"]
        # Its own tolerance, which it applies only when told to; not construct_event, which parses the body.
        tolerance = stripe.Webhook.DEFAULT_TOLERANCE
        return stripe.WebhookSignature.verify_header(
            request["body"], header, request["secret"], tolerance
        )

    @staticmethod
    def sign(request):
        header = stripe.WebhookSignature.generate_signature_header(
            request["body"].decode(), request["secret"], request["time"]
        )
        return {"stripe-signature": header}


class Slack:
    @staticmethod
    def verify(request):
        verifier = SignatureVerifier(request["secret"])
        return verifier.is_valid_request(request["body"], request["headers"])

    @staticmethod
    def sign(request):
        time = str(request["time"])
        verifier = SignatureVerifier(request["secret"])
        signature = verifier.generate_signature(timestamp=time, body=request["body"])
        return {"x-slack-request-timestamp": time, "x-slack-signature": signature}


class StandardWebhooks:
    @staticmethod
    def verify(request):
        webhook = standardwebhooks.Webhook(request["secret"])
        webhook.verify(request["body"], request["headers"], json_parse=False)
        return True

    @staticmethod
    def sign(request):
        webhook = standardwebhooks.Webhook(request["secret"])
        return _signed_by(webhook, "webhook", request)


class Svix:
    @staticmethod
    def verify(request):
        svix.webhooks.Webhook(request["secret"]).verify(request["body"], request["headers"])
        return True

    @staticmethod
    def sign(request):
        webhook = svix.webhooks.Webhook(request["secret"])
        return _signed_by(webhook, "svix", request)


def _signed_by(webhook, prefix, request):
    at = datetime.fromtimestamp(request["time"], tz=timezone.utc)
    signature = webhook.sign(request["id"], at, request["body"].decode())
    return {
        f"{prefix}-id": request["id"],
        f"{prefix}-timestamp": str(request["time"]),
        f"{prefix}-signature": signature,
    }


SDKS = {
    "stripe": Stripe,
    "slack_sdk": Slack,
    "standardwebhooks": StandardWebhooks,
    "svix": Svix,
}


def answer(request):
    sdk = SDKS[request["sdk"]]
    if request["ask"] == "version":
        return {"version": metadata.version(request["sdk"])}
    request["body"] = base64.b64decode(request["body"])
    try:
        if request["ask"] == "sign":
            return {"signed": {"headers": sdk.sign(request)}}
        return {"accepted": sdk.verify(request) is True}
    except Exception as error:  # Whatever it raises, it did not accept.
        return {"accepted": False, "why": f"{type(error).__name__}: {error}"}


def main():
    # Standard output is for answers alone.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


main()
