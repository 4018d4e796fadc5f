"""The examples, each by the one command that its page gives."""

import os
import runpy
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from wakepost import NotDone

from .stub import Stub, problem

ROOT = Path(__file__).resolve().parents[3]

#: What the server would go by if an example let it.
SETTINGS = {
    "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
    "WAKEPOST_DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
    "WAKEPOST_MASTER_KEY": "no key",
    "WEBHOOK_BASE_URL": "no url",
    "APP_URL": "no url",
    "URL": "no url",
}


@unittest.skipUnless(os.environ.get("WAKEPOST_BIN"), "WAKEPOST_BIN names no server")
@unittest.skipUnless((ROOT / "examples" / "run.py").exists(), "the examples are not there")
class Examples(unittest.TestCase):
    def run_it(self, *command, **variables):
        """Runs a command from the repository root, as one does whose shell is full of other servers' settings."""
        without = {k: v for k, v in os.environ.items() if k not in ("WAKEPOST_URL", "WAKEPOST_KEY")}
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**without, **SETTINGS, **variables},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def story(self, *command):
        """Runs an example, which checks its own end."""
        ran = self.run_it(*command)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def python_story(self, name):
        return self.story(sys.executable, "examples/run.py", name)

    def test_plain_python_comments_once(self):
        self.assertIn("GitHub got 1 comment", self.python_story("plain-python"))

    def test_tool_calling_refunds_once(self):
        self.assertIn("refunds made: 1, runs: 2", self.python_story("tool-calling"))

    def test_a_refused_tool_did_not_happen_and_a_broken_one_may_have(self):
        refused = Stub(problem(409, "conflict"))
        broken = Stub(problem(502, "bad_gateway"))
        for stub in (refused, broken):
            self.addCleanup(stub.close)
        with mock.patch.dict(os.environ, WAKEPOST_KEY="k"):
            agent = runpy.run_path(str(ROOT / "examples" / "tool-calling" / "agent.py"))
        with self.assertRaises(NotDone):
            agent["post"](f"{refused.url}/refund_order", {})
        with self.assertRaises(RuntimeError):
            agent["post"](f"{broken.url}/refund_order", {})

    def test_langgraph_style_goes_on_at_the_node_it_was_killed_in(self):
        self.assertIn("mails sent: 1", self.python_story("langgraph-style"))

    @unittest.skipUnless(shutil.which("curl"), "curl is not there")
    def test_the_shell_agent_greets_each_once(self):
        told = self.story("sh", "examples/shell-agent/run.sh")
        self.assertIn("Hello, Ada!", told)
        self.assertIn("Hello, Grace!", told)

    @unittest.skipUnless(shutil.which("npm"), "Node and npm are not there")
    def test_the_typescript_agent_sends_one_mail(self):
        told = self.story("node", "examples/typescript-agent/run.mjs")
        self.assertIn("mails sent: 1", told)

    def test_a_server_that_is_not_there_is_told_so_with_what_to_build(self):
        commands = [
            [sys.executable, "examples/run.py", "plain-python"],
            ["sh", "examples/shell-agent/run.sh"],
        ]
        if shutil.which("node"):
            commands.append(["node", "examples/typescript-agent/run.mjs"])
        for command in commands:
            ran = self.run_it(*command, WAKEPOST_BIN="/no/such/program")
            self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
            self.assertIn("cargo build --release", ran.stderr)

    def test_an_unknown_example_is_told_which_there_are(self):
        ran = self.run_it(sys.executable, "examples/run.py", "nothing")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("plain-python", ran.stderr)
