"""The agent as a URL: the job is posted, signed, and the answer is the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..attempt import Handler, outcome_of, writable
from ..client import Client
from ..core import write_json
from ..ending import Done, Failed
from ..run import Run
from ..verify import Headers, VerificationError, verify


@dataclass(frozen=True)
class Pushed:
    """What to answer to a push, whatever the web server is."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def answer_push(
    headers: Headers,
    body: bytes,
    secret: str | Sequence[str],
    handler: Handler,
    *,
    client: Client | None = None,
    tolerance_s: int = 300,
) -> Pushed:
    """Verifies a pushed job, does it, and says what to answer.

    `secret` is the `executor_secret` that was shown where the URL was registered. `client` is for what the
    handler calls meanwhile (effects, checkpoints), with a worker key; without it `WAKEPOST_URL` and
    `WAKEPOST_KEY` are used.
    """
    try:
        leased = verify(headers, body, secret, tolerance_s)
    except VerificationError:
        # No more than that: the sender of a forged request learns nothing.
        return Pushed(401, b"not verified", {"Content-Type": "text/plain"})
    if not isinstance(leased, dict) or not {"id", "lease_token"} <= leased.keys():
        return Pushed(400, b"not a job", {"Content-Type": "text/plain"})
    run = Run(client or Client(), leased)
    outcome = outcome_of(run, handler)
    if isinstance(outcome, Done):
        outcome = writable(outcome)
    return _answer(run, outcome)


def _answer(run: Run, outcome: Done | Failed | None) -> Pushed:
    match outcome:
        case Done(result, reply, cost):
            fields = {"result": result, "reply": reply}
            fields["cost"] = run.cost if cost is None else cost
            fields = {name: value for name, value in fields.items() if value is not None}
            return Pushed(200, write_json(fields), {"Content-Type": "application/json"})
        case Failed(error, False, _):
            return Pushed(422, error.encode(), {"Content-Type": "text/plain; charset=utf-8"})
        case Failed(error, _, after_s):
            headers = {"Content-Type": "text/plain; charset=utf-8"}
            if after_s is not None:
                headers["Retry-After"] = str(after_s)
            return Pushed(503, error.encode(), headers)
        case None:
            # The run ended on the server already, so this is read by nobody.
            return Pushed(503)
