"""The conformance agent: does the steps that a test wrote into a job's input, with nothing but the public API.

    WAKEPOST_URL=… WAKEPOST_KEY=… RECEIVER_URL=… AGENT_NAME=… python3 sdks/python/conformance_agent.py

The same program exists in each SDK, so that one set of tests can hold all of them to the same promises.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

from wakepost import (
    Cancelled,
    Client,
    Done,
    GiveUp,
    Job,
    NotDone,
    Retry,
    VerificationError,
    Worker,
    verify,
)

RECEIVER = os.environ.get("RECEIVER_URL", "")
#: A rendezvous may be held for as long as a test lasts.
PATIENCE_S = 300


def post(path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Posts to the test's receiver."""
    url = urlsplit(RECEIVER)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE_S)
    try:
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", url.path.rstrip("/") + path, json.dumps(body), all_headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def meet(job: Job, name: str) -> None:
    """A rendezvous: the test may hold it, or kill the agent."""
    body = {"job": job.id, "run": job.run_id, "attempt": job.attempt}
    status, text = post(f"/at/{name}", body)
    if not 200 <= status < 300:
        raise RuntimeError(f"the rendezvous {name} answered {status}: {text!r}")


class Steps:
    """One job's steps, and what its effects came to."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.effects: dict[str, Any] = {}
        self.verified: dict[str, bool | None] = {}

    def steps(self) -> list[dict[str, Any]]:
        """A job made through the API has them as its input, a message as its text."""
        given = self.job.input
        if given is None and self.job.envelope is not None:
            given = json.loads(self.job.envelope["message"]["text"])
        return list(given["steps"])

    def run(self) -> Done:
        steps = self.steps()
        first = (self.job.checkpoint_state or {}).get("next", 0)
        for index in range(first, len(steps)):
            step = steps[index]
            if "result" in step:
                return Done(step["result"], step.get("reply"), step.get("cost"))
            self.do(step, index)
        verified = {"verified": self.verified} if self.verified else {}
        return Done({"effects": self.effects, "attempt": self.job.attempt, **verified})

    def do(self, step: dict[str, Any], index: int) -> None:
        known: dict[str, Callable[[dict[str, Any]], object]] = {
            "verify": self.verify,
            "create": lambda step: self.job.client.create_job(**step["create"]),
            "spent": self.spend,
            "effect": self.effect,
            "at": lambda step: meet(self.job, step["at"]),
            "checkpoint": lambda _: self.job.checkpoint({"next": index + 1}),
            "progress": self.progress,
            "reply": lambda step: self.job.reply(step["reply"], update=step.get("update")),
            "sleep_ms": lambda step: self.job.sleep(step["sleep_ms"] / 1000),
            "until_cancelled": self.until_cancelled,
            "fail": self.fail,
            "fail_first": self.fail_first,
            "throw": self.throw,
        }
        for name, act in known.items():
            if name in step:
                act(step)
                return
        raise GiveUp(f"there is no such step: {step}")

    def effect(self, step: dict[str, Any]) -> None:
        job, key = self.job, step["effect"]

        def act(idempotency_key: str) -> Any:
            if "before" in step:
                meet(job, step["before"])
            headers = {"Idempotency-Key": idempotency_key, "Wakepost-Run-Id": job.run_id}
            status, text = post(step["post"], {"job": job.id, "key": key}, headers)
            if 400 <= status < 500:
                raise NotDone(text.decode(errors="replace"))
            if not 200 <= status < 300:
                raise RuntimeError(f"the receiver answered {status}")
            if "inside" in step:
                meet(job, step["inside"])
            return json.loads(text) if text.strip() else None

        if os.environ.get("AGENT_WITHOUT_LEDGER"):
            # The control of the kill trials: what an agent without the ledger would do.
            self.effects[key] = act("none")
            return
        self.effects[key] = job.effect(
            key, act, description=step.get("description"), on_doubt=step.get("on_doubt")
        )

    def verify(self, step: dict[str, Any]) -> None:
        try:
            verify(
                [tuple(pair) for pair in step["headers"]],
                step["body"].encode(),
                step["secrets"],
                now=step["now"],
            )
            good: bool | None = True
        except VerificationError:
            good = False
        except RuntimeError:
            # Ed25519 needs a package that is not everywhere.
            good = None
        self.verified[step["verify"]] = good

    def spend(self, step: dict[str, Any]) -> None:
        self.job.cost = step["spent"]

    def progress(self, step: dict[str, Any]) -> None:
        self.job.progress(step["progress"], percent=step.get("percent"), step=step.get("step"))

    def until_cancelled(self, _step: dict[str, Any]) -> None:
        self.job.cancelled.wait()
        try:
            self.job.check()
        except Cancelled:
            post("/cancelled", {"job": self.job.id})
            raise

    def fail(self, step: dict[str, Any]) -> None:
        if step.get("retryable") is False:
            raise GiveUp(step["fail"])
        raise Retry(step["fail"], step.get("retry_after_s"))

    def fail_first(self, step: dict[str, Any]) -> None:
        if self.job.attempt <= step["fail_first"]:
            raise Retry(step.get("error", "failed on purpose"))

    def throw(self, step: dict[str, Any]) -> None:
        raise ArithmeticError(step["throw"])


def main() -> None:
    """Works until SIGTERM."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    of = os.environ.get
    worker = Worker(
        Client(),
        of("AGENT_NAME", "conformance-python"),
        lambda job: Steps(job).run(),
        kinds=[kind for kind in of("AGENT_KINDS", "conformance").split(",") if kind],
        concurrency=int(of("AGENT_CONCURRENCY", "1")),
        lease_s=int(of("AGENT_LEASE_S", "5")),
        grace_s=float(of("AGENT_GRACE_S", "5")),
        wait_s=1,
    )
    worker.run(on_start=lambda: print("ready", flush=True))


if __name__ == "__main__":
    main()
