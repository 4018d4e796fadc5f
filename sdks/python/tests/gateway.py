"""A real server on a port and in a directory of its own."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from wakepost import Client

from .waiting import wait_for

KEY = "the-key-of-the-tests-0123456789abcdef"
FINAL = {"succeeded", "dead_letter", "cancelled", "held", "awaiting_approval"}


class Gateway:
    """One server process, which can be killed and started again on the same data."""

    def __init__(self, config=""):
        self._directory = tempfile.TemporaryDirectory(prefix="wakepost-python-")
        self.directory = Path(self._directory.name)
        self._config = self.directory / "wakepost.toml"
        self._config.write_text(config)
        self._listen = "127.0.0.1:0"
        self.start()

    def start(self):
        """Starts it; a second time, on the port of the first."""
        log = (self.directory / "log").open("ab")
        arguments = ["serve", "--listen", self._listen, "--data-dir", str(self.directory / "data")]
        self._process = subprocess.Popen(
            [os.environ["WAKEPOST_BIN"], *arguments, "--config", str(self._config)],
            env={**_environment(), "WAKEPOST_ADMIN_KEY": KEY},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        for line in self._process.stdout:
            found = re.search(r"listening on (http://(\S+))", line)
            if found:
                self.url, self._listen = found.groups()
                break
        else:
            raise AssertionError((self.directory / "log").read_text())
        # Whatever it prints later must not fill the pipe.
        threading.Thread(target=self._process.stdout.read, daemon=True).start()
        self.client = Client(self.url, KEY)

    def kill(self):
        """Kills it as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        self.client.close()

    def close(self):
        """Ends it, and removes what it wrote."""
        if self._process.poll() is None:
            self.kill()
        self._directory.cleanup()

    def job(self, steps=None, **fields):
        """Makes a job for the conformance agent, or any other."""
        fields.setdefault("kind", "conformance")
        fields.setdefault("input", {"steps": steps or []})
        return self.client.create_job(**fields)["id"]

    def wait(self, job_id, *states):
        """Waits until the job is in one of the states (else: until it rests), and returns it."""
        wanted = set(states) or FINAL

        def there():
            job = self.client.get_job(job_id)
            return job if job["status"] in wanted else None

        return wait_for(there, f"{job_id} to be {sorted(wanted)}")


def _environment():
    """Ours, without what would be a setting of the server."""
    settings = {"DATABASE_URL", "WEBHOOK_BASE_URL", "APP_URL", "URL"}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in settings and not name.startswith("WAKEPOST_")
    }


@unittest.skipUnless(os.environ.get("WAKEPOST_BIN"), "WAKEPOST_BIN names no server")
class WithGateway(unittest.TestCase):
    """Tests that share one server, each with kinds of job of its own."""

    config = ""

    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway(cls.config)
        cls.addClassCleanup(cls.gateway.close)

    @property
    def client(self):
        return self.gateway.client

    @property
    def kind(self):
        """A kind of job that no other test has."""
        return self._testMethodName[:60]
