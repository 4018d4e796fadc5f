"""The agents of the guides, cut out of their pages and run against a real server and the stand-in they name."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from .gateway import KEY, Gateway, _environment
from .waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
GUIDES = ROOT / "docs" / "guides"


class Said:
    """A process whose lines are kept."""

    def __init__(self, arguments, **variables):
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        path = str(ROOT / "sdks/python/src")
        self._process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            env={**_environment(), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **variables},
            stdout=self._output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def lines(self):
        self._output.flush()
        descriptor = self._output.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode().splitlines()

    def wait_for(self, text):
        def said():
            return next((line for line in self.lines() if text in line), None)

        return wait_for(said, f"{text!r} among {self.lines()}")

    def close(self):
        self._process.kill()
        self._process.wait()
        self._output.close()


@unittest.skipUnless(os.environ.get("WAKEPOST_BIN"), "WAKEPOST_BIN names no server")
@unittest.skipUnless(GUIDES.exists(), "the guides are not there")
class Guides(unittest.TestCase):
    def setUp(self):
        self.gateway = Gateway()
        self.addCleanup(self.gateway.close)
        self.world = Said([str(ROOT / "examples/stand_in.py"), "0"])
        self.addCleanup(self.world.close)
        self.world_url = re.search(r"http://\S+", self.world.wait_for("standing in on "))[0]

    def agent(self, guide, **variables):
        """Starts the agent that the guide shows."""
        page = (GUIDES / guide).read_text(encoding="utf-8")
        [program] = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
        file = self.gateway.directory / "agent.py"
        file.write_text(program, encoding="utf-8")
        agent = Said([str(file)], WAKEPOST_URL=self.gateway.url, WAKEPOST_KEY=KEY, **variables)
        self.addCleanup(agent.close)
        return agent

    def source(self, **fields):
        return self.gateway.client.call("POST", ["sources"], fields)["id"]

    def trigger(self, source, event_type):
        """Sends a sample, as `webhookctl trigger` does, and returns its job's id."""
        answer = self.gateway.client.call(
            "POST", ["sources", source, "test"], {"event_type": event_type}
        )
        return answer["body"]["job_id"]

    def calls(self):
        return [line for line in self.world.lines() if line.startswith(("call", "again"))]

    def test_the_triage_agent_labels_an_issue(self):
        source = self.source(provider="github", filter=["issues.*"])
        self.agent("github-triage.md", GITHUB_URL=self.world_url, GITHUB_TOKEN="none")
        job = self.gateway.wait(self.trigger(source, "issues.opened"))
        self.assertEqual((job["status"], job["result"]), ("succeeded", {"labels": ["bug"]}))
        self.assertEqual(
            self.calls(), ['call  /repos/acme/rocket/issues/42/labels {"labels": ["bug"]}']
        )

    def test_the_assistant_answers_in_the_thread(self):
        settings = {
            "bot_token": "xoxb-none",
            "api_url": f"{self.world_url}/api",
            "allowed_teams": "T0ACME001",
        }
        source = self.source(provider="slack", secret="8f742231b10e8888", settings=settings)
        self.agent("slack-assistant.md")
        self.trigger(source, "app_mention")
        self.world.wait_for("/api/chat.update")
        posted, changed = self.calls()
        self.assertIn('"text": "Looking…"', posted)
        self.assertIn("build of the rocket fail?*", changed)

    def test_the_payments_agent_refunds_once_after_a_person_agreed(self):
        source = self.source(
            provider="stripe", secret="whsec_none", order_by="/data/object/id", mode="draft"
        )
        self.agent("stripe.md", STRIPE_URL=self.world_url, STRIPE_KEY="none")
        job_id = self.trigger(source, "payment_intent.succeeded")
        waiting = self.gateway.wait(job_id, "awaiting_approval")
        self.assertEqual(self.calls(), [])
        effects = [
            {"key": one["key"], "proposal_hash": one["proposal_hash"]} for one in waiting["effects"]
        ]
        self.gateway.client.call("POST", ["jobs", job_id, "approve"], {"effects": effects})
        job = self.gateway.wait(job_id, "succeeded")
        self.assertEqual(job["result"], {"order": "8123", "refund": "re_1"})
        # A replay asks again, and skips what was done.
        again = self.gateway.client.call("POST", ["jobs", job_id, "replay"], {"note": "the test"})[
            "job_id"
        ]
        self.gateway.wait(again, "succeeded")
        self.assertEqual(len(self.calls()), 1)


if __name__ == "__main__":
    unittest.main()
