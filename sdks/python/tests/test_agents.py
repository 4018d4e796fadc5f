"""Agents that the server reaches out to: a command, and a URL."""

import json
import subprocess
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from wakepost import Client, Done, GiveUp, Retry, answer_push

from .gateway import WithGateway
from .test_verify import SECRET, signed
from .waiting import wait_for

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"

CONFIG = f"""
[exec.agent]
command = ["{sys.executable}", "{HERE / "exec_agent.py"}"]
env = {{ PYTHONPATH = "{SOURCE}" }}
"""


class Commands(WithGateway):
    config = CONFIG

    def run_agent(self, do, *states, **fields):
        executor = {"kind": "exec", "name": "agent"}
        job = self.client.create_job({"do": do}, kind=self.kind, executor=executor, **fields)
        return self.gateway.wait(job["id"], *states)

    def test_a_command_has_the_job_its_effects_and_its_result(self):
        job = self.run_agent("work")
        self.assertEqual(job["status"], "succeeded", job["last_error"])
        self.assertEqual(job["result"], {"attempt": 1, "mail": {"key": True}})
        self.assertEqual((job["reply"], job["cost"]), ("done", 0.25))
        self.assertEqual([effect["state"] for effect in job["effects"]], ["committed"])
        self.assertEqual(job["checkpoint"], {"at": 1})

    def test_a_failure_of_a_command_is_told_in_words(self):
        job = self.run_agent("give_up")
        self.assertEqual((job["status"], job["last_error"]), ("dead_letter", "no use"))
        job = self.run_agent("retry", "retrying")
        self.assertEqual(job["last_error"], "busy")
        job = self.run_agent("raise", "retrying")
        self.assertEqual(job["last_error"], "ValueError: broken")

    def test_an_effect_in_doubt_holds_the_job_of_a_command(self):
        job = self.run_agent("die_in_effect", "held", "dead_letter", "succeeded")
        self.assertEqual((job["status"], job["held_reason"]), ("held", "in_doubt"))
        self.assertEqual(job["attempts"], 1)

    def test_a_cancelled_command_hears_of_it(self):
        executor = {"kind": "exec", "name": "agent"}
        made = self.client.create_job({"do": "wait"}, kind=self.kind, executor=executor)

        def waits():
            return self.client.get_job(made["id"])["checkpoint"] == {"waits": True}

        wait_for(waits, "the command to wait")
        self.client.cancel(made["id"])
        self.assertEqual(self.gateway.wait(made["id"])["status"], "cancelled")

    def test_a_command_without_a_server_says_so_and_is_tried_again(self):
        job = {"id": "job_1", "lease_token": "t", "attempt": 1, "input": {"do": "raise"}}
        ended = subprocess.run(
            [sys.executable, str(HERE / "exec_agent.py")],
            input=json.dumps(job),
            env={"WAKEPOST_URL": "http://127.0.0.1:1", "WAKEPOST_KEY": "k", "INSIST_S": "0.1"}
            | {"PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((ended.returncode, ended.stdout), (75, ""))
        self.assertIn("ValueError: broken", ended.stderr)


class Pushes(WithGateway):
    def serve(self, handler):
        """An agent behind a URL, and the secret once it is known."""
        known = {}
        client = self.client

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = answer_push(self.headers, body, known["secret"], handler, client=client)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/", known

    def push(self, handler, *states, secret=None):
        url, known = self.serve(handler)
        # What is pushed before the secret is known would be refused, so the job is made to wait for it.
        first = self.client.create_job(
            {}, kind=self.kind, executor={"kind": "http", "url": url}, delay_s=3600
        )
        known["secret"] = secret or first["executor_secret"]
        self.client.cancel(first["id"])
        made = self.client.create_job(
            {"n": 1}, kind=self.kind, executor={"kind": "http", "url": url}
        )
        return self.gateway.wait(made["id"], *states)

    def test_a_pushed_job_is_verified_done_and_answered(self):
        def handler(job):
            sent = job.effect("mail", lambda key: len(key) > 0)
            return Done({"sent": sent, "n": job.input["n"]}, reply="done", cost=0.5)

        job = self.push(handler)
        self.assertEqual(job["status"], "succeeded", job["last_error"])
        self.assertEqual(job["result"], {"sent": True, "n": 1})
        self.assertEqual((job["reply"], job["cost"]), ("done", 0.5))

    def test_an_async_handler_may_be_pushed_to(self):
        async def handler(job):
            return await job.effect("mail", lambda: "sent")

        self.assertEqual(self.push(handler)["result"], "sent")

    def test_failures_of_a_pushed_job_are_retried_or_not_as_they_were_meant(self):
        def give_up(_):
            raise GiveUp("no use")

        def retry(_):
            raise Retry("busy", after_s=100)

        job = self.push(give_up)
        self.assertEqual(job["status"], "dead_letter")
        self.assertIn("no use", job["last_error"])
        self.assertIn("busy", self.push(retry, "retrying")["last_error"])

    def test_a_push_that_is_not_verified_does_nothing(self):
        acts = []
        job = self.push(acts.append, secret=SECRET)
        self.assertEqual((job["status"], acts), ("dead_letter", []))
        self.assertIn("401", job["last_error"])


class Answering(unittest.TestCase):
    def test_what_is_signed_but_no_job_is_refused(self):
        client = Client("http://127.0.0.1:1", "k")
        for body in (b"[]", b"{}", b"1"):
            answer = answer_push(signed(body), body, SECRET, lambda _: 1, client=client)
            self.assertEqual(answer.status, 400)
        body = b'{"id":"job_1","lease_token":"t"}'
        answer = answer_push(signed(body), body, SECRET, lambda _: {"a": 1}, client=client)
        self.assertEqual((answer.status, answer.body), (200, b'{"result":{"a":1}}'))
        answer = answer_push(signed(body), body, SECRET, lambda _: object(), client=client)
        self.assertEqual(answer.status, 422)
