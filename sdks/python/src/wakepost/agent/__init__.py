"""Agents that Wakepost reaches out to: a command it runs (`exec`), and a URL it posts to (`http`).

Both get the job handed to them, with the same `Job` to work with. The server renews the lease meanwhile.
"""

from .command import exec_job
from .push import Pushed, answer_push

__all__ = ["Pushed", "answer_push", "exec_job"]
