"""The Python SDK of Wakepost.

`Client` has one method for each call about jobs, and for each about what is sent to subscribers: `publish`
tells them what happened, once. `Worker` leases jobs, keeps their leases alive, runs them and reports how they
went; `AsyncWorker` does so on an event loop. `Consumer` does so with the deliveries of a pull webhook. `verify`
checks signatures. `exec_job` and `answer_push` are for agents that Wakepost reaches out to. Nothing but the
standard library is needed.
"""

from .agent import Pushed, answer_push, exec_job
from .async_job import AsyncJob
from .client import Client
from .consumer import Consumer, Delivery
from .ending import (
    Cancelled,
    Done,
    Dropped,
    GiveUp,
    InDoubt,
    NeedsApproval,
    NotDone,
    Reply,
    Retry,
    RunEnded,
    Unknown,
)
from .errors import LeaseLost, Unreachable, WakepostError
from .job import Job
from .verify import VerificationError, verify
from .version import VERSION as __version__
from .worker import AsyncWorker, Worker

__all__ = [
    "AsyncJob",
    "AsyncWorker",
    "Cancelled",
    "Client",
    "Consumer",
    "Delivery",
    "Done",
    "Dropped",
    "GiveUp",
    "InDoubt",
    "Job",
    "LeaseLost",
    "NeedsApproval",
    "NotDone",
    "Pushed",
    "Reply",
    "Retry",
    "RunEnded",
    "Unknown",
    "Unreachable",
    "VerificationError",
    "WakepostError",
    "Worker",
    "__version__",
    "answer_push",
    "exec_job",
    "verify",
]
