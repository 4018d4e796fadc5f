"""The examples, each by the one command that its page gives."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@unittest.skipUnless(os.environ.get("WAKEPOST_BIN"), "WAKEPOST_BIN names no server")
@unittest.skipUnless((ROOT / "examples" / "run.py").exists(), "the examples are not there")
class Examples(unittest.TestCase):
    def story(self, name):
        """Runs an example, which checks its own end."""
        without = {k: v for k, v in os.environ.items() if k not in ("WAKEPOST_URL", "WAKEPOST_KEY")}
        ran = subprocess.run(
            [sys.executable, "examples/run.py", name],
            cwd=ROOT,
            env=without,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_plain_python_comments_once(self):
        self.assertIn("GitHub got 1 comment", self.story("plain-python"))

    def test_tool_calling_refunds_once(self):
        self.assertIn("refunds made: 1, runs: 2", self.story("tool-calling"))

    def test_langgraph_style_goes_on_at_the_node_it_was_killed_in(self):
        self.assertIn("mails sent: 1", self.story("langgraph-style"))

    def test_an_unknown_example_is_told_which_there_are(self):
        ran = subprocess.run(
            [sys.executable, "examples/run.py", "nothing"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(ran.returncode, 1)
        self.assertIn("plain-python", ran.stderr)
