"""The conformance agent against a real server: kills, restarts, stops and cancellations."""

import signal
import unittest
from pathlib import Path

from .agent_process import AgentProcess
from .gateway import Gateway, WithGateway
from .receiver import Receiver
from .waiting import wait_for


class Conformance(WithGateway):
    def setUp(self):
        self.receiver = Receiver()
        self.addCleanup(self.receiver.close)

    def agent(self, gateway=None, **settings):
        settings.setdefault("lease_s", 2)
        settings.setdefault("kinds", self.kind)
        url = (gateway or self.gateway).url
        agent = AgentProcess(url, self.receiver.url, **settings)
        self.addCleanup(agent.close)
        return agent

    def job(self, *steps, **fields):
        return self.gateway.job(list(steps), kind=self.kind, **fields)

    def test_steps_are_done_in_order_and_the_effects_are_the_result(self):
        self.agent()
        job = self.job(
            {"progress": "begun", "percent": 10, "step": "one"},
            {"effect": "mail", "post": "/mail"},
            {"checkpoint": True},
            {"effect": "call", "post": "/call"},
        )
        done = self.gateway.wait(job)
        self.assertEqual(done["status"], "succeeded")
        effects = {"mail": {"number": 1}, "call": {"number": 1}}
        self.assertEqual(done["result"], {"effects": effects, "attempt": 1})
        _, headers, body = self.receiver.wait("/mail")
        self.assertEqual(body, {"job": job, "key": "mail"})
        self.assertTrue(headers["Idempotency-Key"])
        self.assertEqual(headers["Wakepost-Run-Id"], done["runs"][0]["id"])

    def test_result_reply_and_cost_are_reported(self):
        self.agent()
        done = self.gateway.wait(self.job({"result": {"a": [1]}, "cost": 0.5}))
        self.assertEqual((done["status"], done["result"]), ("succeeded", {"a": [1]}))
        self.assertEqual(done["cost"], 0.5)

    def test_a_kill_inside_an_effect_leaves_it_in_doubt_and_it_is_not_done_again(self):
        self.receiver.hold("inside")
        agent = self.agent()
        job = self.job({"effect": "pay", "post": "/pay", "inside": "inside"})
        self.receiver.wait("/at/inside")
        agent.kill()
        self.agent()
        held = self.gateway.wait(job)
        self.assertEqual((held["status"], held["held_reason"]), ("held", "in_doubt"))
        self.assertEqual(self.receiver.count("/pay"), 1)
        # An operator says that it happened: the next run skips it.
        self.client.resolve(job, "pay", "committed", "the ledger has it", result={"id": 7})
        done = self.gateway.wait(job, "succeeded")
        self.assertEqual(done["result"]["effects"], {"pay": {"id": 7}})
        self.assertEqual(self.receiver.count("/pay"), 1)

    def test_a_kill_inside_an_effect_that_is_safe_to_repeat_does_it_with_the_same_key(self):
        release = self.receiver.hold("inside")
        agent = self.agent()
        job = self.job({"effect": "pay", "post": "/pay", "inside": "inside", "on_doubt": "execute"})
        self.receiver.wait("/at/inside")
        agent.kill()
        release()
        self.agent()
        self.assertEqual(self.gateway.wait(job)["status"], "succeeded")
        keys = {h["Idempotency-Key"] for path, h, _ in self.receiver.posts if path == "/pay"}
        self.assertEqual((self.receiver.count("/pay"), len(keys)), (2, 1))

    def test_a_kill_after_a_committed_effect_and_a_checkpoint_goes_on_behind_them(self):
        self.receiver.hold("later")
        agent = self.agent()
        job = self.job(
            {"effect": "one", "post": "/one"},
            {"checkpoint": True},
            {"effect": "two", "post": "/two"},
            {"at": "later"},
        )
        self.receiver.wait("/at/later")
        agent.kill()
        self.receiver._held["/at/later"].set()
        self.agent()
        done = self.gateway.wait(job)
        self.assertEqual(done["result"], {"effects": {"two": {"number": 1}}, "attempt": 2})
        self.assertEqual((self.receiver.count("/one"), self.receiver.count("/two")), (1, 1))

    def test_an_effect_that_certainly_did_not_happen_is_tried_again(self):
        self.receiver.statuses["/busy"] = 409
        self.agent()
        job = self.job({"effect": "book", "post": "/busy"}, max_attempts=5)
        retrying = self.gateway.wait(job, "retrying")
        self.assertEqual([e["state"] for e in retrying["effects"]], ["aborted"])
        self.assertIn("number", retrying["last_error"])

    def test_an_effect_that_may_have_happened_holds_the_next_run(self):
        self.receiver.statuses["/broken"] = 500
        self.agent()
        job = self.job({"effect": "book", "post": "/broken"}, {"fail": "not reached"})
        self.gateway.wait(job, "retrying")
        self.assertIn("500", self.client.get_job(job)["last_error"])

    def test_failures_are_reported_as_they_were_meant(self):
        self.agent()
        final = self.gateway.wait(self.job({"fail": "no use", "retryable": False}))
        self.assertEqual((final["status"], final["last_error"]), ("dead_letter", "no use"))
        thrown = self.gateway.wait(self.job({"throw": "went wrong"}), "retrying")
        self.assertEqual(thrown["last_error"], "ArithmeticError: went wrong")
        later = self.gateway.wait(self.job({"fail": "busy", "retry_after_s": 3000}), "retrying")
        self.assertGreater(later["run_at"], later["created_at"])
        again = self.gateway.wait(self.job({"fail_first": 1, "error": "once"}), "retrying")
        self.assertEqual(again["last_error"], "once")

    def test_a_cancelled_job_hears_of_it_and_ends_cancelled(self):
        self.agent(lease_s=1)
        job = self.job({"at": "begun"}, {"until_cancelled": True})
        self.receiver.wait("/at/begun")
        self.client.cancel(job, note="not needed")
        self.receiver.wait("/cancelled")
        self.assertEqual(self.gateway.wait(job)["status"], "cancelled")

    def test_a_sleep_honours_cancellation(self):
        self.agent(lease_s=1)
        job = self.job({"at": "begun"}, {"sleep_ms": 3_600_000})
        self.receiver.wait("/at/begun")
        self.client.cancel(job)
        self.assertEqual(self.gateway.wait(job)["status"], "cancelled")

    def test_a_stop_lets_the_running_job_end(self):
        release = self.receiver.hold("slow")
        agent = self.agent(grace_s=30)
        job = self.job({"at": "slow"})
        self.receiver.wait("/at/slow")
        agent.ask_to_stop()
        release()
        self.assertEqual(agent.wait(), 0)
        self.assertEqual(self.client.get_job(job)["status"], "succeeded")

    def test_a_stop_hands_back_what_does_not_end_in_time(self):
        agent = self.agent(grace_s=0, lease_s=60)
        job = self.job({"at": "begun"}, {"sleep_ms": 3_600_000})
        self.receiver.wait("/at/begun")
        agent.ask_to_stop()
        self.assertEqual(agent.wait(), 0)
        back = self.client.get_job(job)
        self.assertIn(back["status"], ("retrying", "pending"))
        self.assertIn("the worker stopped", [run.get("error") for run in back["runs"]])
        # It is claimable at once, though the lease had a minute to go.
        self.agent()
        self.receiver.wait("/at/begun", times=2)

    @unittest.skipUnless(Path("/proc/self/status").exists(), "only Linux tells of handlers")
    def test_a_second_signal_ends_the_agent_at_once(self):
        self.receiver.hold("slow")
        agent = self.agent(grace_s=600)
        self.job({"at": "slow"})
        self.receiver.wait("/at/slow")
        agent.ask_to_stop()
        # The second must not come before the first was heeded: that is when the default is back.
        wait_for(agent.is_deaf_to_sigterm, "the first signal to be heeded")
        agent.ask_to_stop()
        self.assertEqual(agent.wait(), -signal.SIGTERM)

    def test_a_server_that_dies_during_a_run_is_waited_for(self):
        gateway = Gateway()
        self.addCleanup(gateway.close)
        release = self.receiver.hold("begun")
        self.agent(gateway, lease_s=30)
        steps = [
            {"at": "begun"},
            {"effect": "mail", "post": "/mail"},
            {"checkpoint": True},
            {"at": "done"},
        ]
        job = gateway.job(steps, kind=self.kind)
        self.receiver.wait("/at/begun")
        gateway.kill()
        release()
        gateway.start()
        done = gateway.wait(job)
        self.assertEqual((done["status"], done["attempts"]), ("succeeded", 1))
        self.assertEqual(self.receiver.count("/mail"), 1)

    def test_many_jobs_at_once_are_each_done_once(self):
        self.agent(concurrency=8)
        jobs = self.client.create_jobs(
            {"kind": self.kind, "input": {"steps": [{"effect": "e", "post": f"/many/{n}"}]}}
            for n in range(40)
        )
        for job in jobs:
            self.assertEqual(self.gateway.wait(job["id"])["status"], "succeeded")
        counts = {self.receiver.count(f"/many/{n}") for n in range(40)}
        self.assertEqual(counts, {1})

    def test_a_second_agent_takes_over_when_the_first_is_frozen_and_the_first_stops_acting(self):
        release = self.receiver.hold("begun")
        first = self.agent(lease_s=1)
        job = self.job({"at": "begun"}, {"effect": "mail", "post": "/mail"})
        self.receiver.wait("/at/begun")
        first._process.send_signal(signal.SIGSTOP)
        self.addCleanup(first._process.send_signal, signal.SIGCONT)
        self.agent(lease_s=2)
        self.receiver.wait("/at/begun", times=2)
        release()
        self.assertEqual(self.gateway.wait(job)["attempts"], 2)
        first._process.send_signal(signal.SIGCONT)
        first.ask_to_stop()
        self.assertEqual(first.wait(), 0)
        self.assertEqual(self.receiver.count("/mail"), 1)
        wait_for(lambda: self.client.get_job(job)["status"] == "succeeded", "the end")
