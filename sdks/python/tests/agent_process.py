"""The conformance agent as a process, which can be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from .gateway import KEY

AGENT = Path(__file__).resolve().parents[1] / "conformance_agent.py"


class AgentProcess:
    """One agent, ready."""

    def __init__(self, url, receiver_url, **settings):
        variables = {f"AGENT_{name.upper()}": str(value) for name, value in settings.items()}
        self._process = subprocess.Popen(
            [sys.executable, str(AGENT)],
            env={
                **os.environ,
                "WAKEPOST_URL": url,
                "WAKEPOST_KEY": KEY,
                "RECEIVER_URL": receiver_url,
                "AGENT_NAME": "python",
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self._process.stdout.readline()
        assert line == "ready\n", line

    def kill(self):
        """Kills it where it stands."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def ask_to_stop(self):
        """Sends SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def is_deaf_to_sigterm(self):
        """Whether it has no handler for SIGTERM any more, by what the system says of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        return not int(caught.split()[1], 16) & (1 << (signal.SIGTERM - 1))

    def wait(self):
        """Waits for its end, and returns its exit code."""
        return self._process.wait(60)

    def close(self):
        if self._process.poll() is None:
            self.kill()
        self._process.stdout.close()
