"""Holds the server's answers against its own description, with generated calls (Schemathesis)."""

import os
import sys

from schemathesis.cli import schemathesis

CHECKS = ",".join(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
        "negative_data_rejection",
        "missing_required_header",
        "ignored_auth",
    ]
)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["SCHEMATHESIS_HOOKS"] = "hooks"
    sys.path.insert(0, here)
    schemathesis(
        [
            "--config-file",
            os.path.join(here, "schemathesis.toml"),
            "run",
            os.environ["WAKEPOST_URL"] + "/openapi.json",
            "--header",
            f"Authorization: Bearer {os.environ['WAKEPOST_KEY']}",
            "--seed",
            os.environ["WAKEPOST_SEED"],
            "--checks",
            CHECKS,
            "--continue-on-failure",
            "--request-timeout",
            "30",
            *sys.argv[1:],
        ]
    )


main()
