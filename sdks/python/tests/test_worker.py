"""Workers within this process, against a real server."""

import asyncio
import os
import signal
import threading
import time
import unittest
from typing import ClassVar

from wakepost import (
    AsyncJob,
    AsyncWorker,
    Cancelled,
    Client,
    Done,
    Dropped,
    GiveUp,
    LeaseLost,
    NotDone,
    Reply,
    Retry,
    Unknown,
    WakepostError,
    Worker,
)
from wakepost.effect import call_act

from .gateway import KEY, WithGateway
from .stub import Stub, hang_up, ok, problem
from .waiting import PATIENCE_S, wait_for


class WithWorkers(WithGateway):
    def start(self, handler, **settings):
        """Starts a worker for this test's kind, stopped and waited for at its end."""
        settings = {"kinds": [self.kind], "lease_s": 2, "wait_s": 1, "grace_s": 0, **settings}
        worker = Worker(self.client, "tests", handler, **settings)
        return self.run_in_thread(worker, worker.run)

    def run_in_thread(self, worker, run):
        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def end():
            worker.stop()
            thread.join(PATIENCE_S)
            self.assertFalse(thread.is_alive(), "the worker does not stop")

        self.addCleanup(end)
        worker.end = end
        return worker

    def make(self, **fields):
        return self.gateway.job(kind=self.kind, **{"input": {}, **fields})

    def outcome(self, handler, *states, **fields):
        """What becomes of a job that this handler gets."""
        worker = self.start(handler)
        job = self.gateway.wait(self.make(**fields), *states)
        worker.stop()
        return job


class Working(WithWorkers):
    def test_what_a_handler_returns_is_the_result(self):
        job = self.outcome(lambda job: {"got": job.input}, input={"n": 1})
        self.assertEqual((job["status"], job["result"]), ("succeeded", {"got": {"n": 1}}))

    def test_done_carries_result_reply_and_cost(self):
        job = self.outcome(lambda _: Done({"a": 1}, reply="hello", cost=1.5))
        self.assertEqual((job["result"], job["reply"], job["cost"]), ({"a": 1}, "hello", 1.5))

    def test_reply_is_only_said(self):
        job = self.outcome(lambda _: Reply("hello"))
        self.assertEqual((job["result"], job["reply"]), (None, "hello"))

    def test_the_cost_so_far_is_reported_with_a_failure_too(self):
        def handler(job):
            job.cost = 2.5
            raise GiveUp("too dear")

        job = self.outcome(handler)
        self.assertEqual((job["status"], job["last_error"]), ("dead_letter", "too dear"))

    def test_handlers_are_found_by_the_kind_of_job(self):
        worker = Worker(self.client, "tests", lease_s=5, wait_s=1)

        @worker.job(self.kind)
        def first(job):
            return "first"

        @worker.job(self.kind + "2", self.kind + "3")
        def second(job):
            return "second"

        self.assertEqual(len(worker.kinds), 3)
        self.run_in_thread(worker, worker.run)
        ids = [self.gateway.job(kind=self.kind + n, input={}) for n in ("", "2", "3")]
        results = [self.gateway.wait(job)["result"] for job in ids]
        self.assertEqual(results, ["first", "second", "second"])

    def test_an_ordinary_exception_is_retried_with_its_causes(self):
        def handler(_):
            try:
                raise KeyError("x")
            except KeyError as error:
                raise RuntimeError("broken") from error

        job = self.outcome(handler, "retrying")
        self.assertEqual(job["last_error"], "RuntimeError: broken, caused by KeyError: 'x'")

    def test_an_exit_in_a_handler_fails_one_run_and_not_the_worker(self):
        def handler(job):
            if job.input == "exit":
                raise SystemExit(3)
            return "fine"

        worker = self.start(handler)
        job = self.gateway.wait(self.make(input="exit"), "retrying")
        self.assertEqual(job["last_error"], "SystemExit: 3")
        self.assertEqual(self.gateway.wait(self.make())["result"], "fine")
        worker.stop()

    def test_a_wait_that_the_handler_asks_for_is_kept(self):
        def handler(job):
            if job.attempt == 1:
                raise Retry(0)
            return job.attempt

        self.assertEqual(self.outcome(handler)["result"], 2)

    def test_a_result_that_cannot_be_kept_is_a_dead_letter_and_not_a_loop(self):
        for result in (object(), "x" * (1024 * 1024 + 1)):
            job = self.outcome(lambda _, result=result: result)
            self.assertEqual(job["status"], "dead_letter")
            self.assertIn("the result was refused", job["last_error"])

    def test_a_checkpoint_is_what_the_next_run_gets(self):
        def handler(job):
            if job.checkpoint_state is None:
                job.checkpoint({"at": 7})
                raise Retry("again", after_s=0)
            return job.checkpoint_state

        self.assertEqual(self.outcome(handler)["result"], {"at": 7})

    def test_a_job_made_by_a_job_knows_what_led_to_it(self):
        def handler(job):
            made = job.client.create_job({}, kind=self.kind + "2")
            return [made["parent_id"], made["hops"], made["trace_id"], job.scheduled_for]

        job = self.outcome(handler)
        self.assertEqual(job["result"], [job["id"], 1, job["trace_id"], None])

    def test_a_lease_is_kept_alive_while_its_job_runs(self):
        def handler(job):
            time.sleep(3)
            return job.attempt

        self.start(handler, lease_s=1)
        self.assertEqual(self.gateway.wait(self.make())["result"], 1)

    def test_a_reply_to_nobody_fails_the_run_in_words(self):
        job = self.outcome(lambda job: job.reply("hello"), "retrying")
        self.assertIn("nowhere that can be answered", job["last_error"])

    def test_a_worker_that_the_server_refuses_ends_with_the_refusal(self):
        with Client(self.gateway.url, "not a key") as client:
            worker = Worker(client, "tests", lambda _: None)
            with self.assertRaises(WakepostError) as caught:
                worker.run()
        self.assertEqual(caught.exception.status, 401)

    def test_settings_out_of_bounds_are_refused(self):
        for bad in ({"concurrency": 0}, {"concurrency": 501}, {"lease_s": 0}, {"wait_s": 31}):
            with self.assertRaises(ValueError):
                Worker(self.client, "tests", **bad)
        with self.assertRaises(ValueError):
            Worker(self.client, "tests").run()


class Effects(WithWorkers):
    def test_an_effect_is_done_once_over_all_runs(self):
        acts = []

        def handler(job):
            result = job.effect("mail", lambda key: acts.append(key) or {"sent": (1, 2)})
            if job.attempt == 1:
                # The same shape in the run that did it as in the one that skips it.
                self.assertEqual(result, {"sent": [1, 2]})
                raise Retry(0)
            return result

        self.assertEqual(self.outcome(handler)["result"], {"sent": [1, 2]})
        self.assertEqual(len(acts), 1)

    def test_not_done_is_aborted_and_done_by_the_next_run(self):
        def handler(job):
            def act():
                if job.attempt == 1:
                    raise NotDone("busy", after_s=0)
                return "sent"

            return job.effect("mail", act)

        job = self.outcome(handler)
        self.assertEqual((job["result"], job["attempts"]), ("sent", 2))

    def test_any_other_exception_leaves_it_in_doubt_and_the_next_run_is_held(self):
        acts = []

        def handler(job):
            try:
                return job.effect("mail", lambda: acts.append(1) or 1 / 0, description="a mail")
            except Unknown as error:
                raise Retry(str(error), after_s=0) from error

        job = self.outcome(handler)
        self.assertEqual((job["status"], job["held_reason"]), ("held", "in_doubt"))
        self.assertEqual(len(acts), 1)
        self.client.resolve(job["id"], "mail", "not_done", "the log says so")
        self.client.cancel(job["id"])

    def test_an_agent_that_swallows_the_error_cannot_act_again_in_the_same_run(self):
        acts = []

        def act():
            acts.append(1)
            raise TimeoutError("no answer")

        def handler(job):
            for _ in range(3):
                try:
                    job.effect("mail", act)
                except Exception as error:
                    last = error
            raise GiveUp(str(last))

        job = self.outcome(handler)
        self.assertEqual(len(acts), 1)
        self.assertIn("in doubt", job["last_error"])

    def test_an_effect_declared_safe_may_be_tried_again_in_the_same_run(self):
        keys = []

        def act(key):
            keys.append(key)
            if len(keys) == 1:
                raise TimeoutError("no answer")
            return "sent"

        def handler(job):
            try:
                job.effect("mail", act, on_doubt="execute")
            except Unknown:
                return job.effect("mail", act, on_doubt="execute")

        self.assertEqual(self.outcome(handler)["result"], "sent")
        self.assertEqual(len(set(keys)), 1)

    def test_a_result_that_cannot_be_kept_does_not_undo_the_effect(self):
        for act in (object, lambda: "x" * (1024 * 1024 + 1)):
            job = self.outcome(lambda job, act=act: job.effect("mail", act))
            self.assertEqual((job["status"], job["result"]), ("succeeded", None))
            self.assertEqual([effect["state"] for effect in job["effects"]], ["committed"])

    def test_an_effect_within_itself_is_a_mistake(self):
        def handler(job):
            job.effect("mail", lambda: job.effect("mail", lambda: None))

        job = self.outcome(handler, "retrying")
        self.assertIn("under way", job["last_error"])

    def test_a_run_whose_lease_is_lost_cannot_act_and_reports_nothing(self):
        acts, ended = [], []

        def handler(job):
            self.client.fail(job.id, job.lease_token, "someone else ended it", retryable=False)
            try:
                job.effect("mail", lambda: acts.append(1))
            except Dropped as error:
                ended.append(error)
                raise

        job = self.outcome(handler)
        self.assertEqual(
            (job["status"], job["last_error"]), ("dead_letter", "someone else ended it")
        )
        wait_for(lambda: ended, "the handler to be dropped")
        self.assertEqual(acts, [])

    def test_a_lost_lease_is_heard_of_through_the_heartbeat(self):
        heard = []

        def handler(job):
            if job.attempt > 1:
                return
            self.client.fail(job.id, job.lease_token, "ended", retry_after_s=0)
            self.assertTrue(job.cancelled.wait(PATIENCE_S))
            try:
                job.check()
            except Dropped as error:
                heard.append(error)
                raise

        self.start(handler, lease_s=1)
        self.assertEqual(self.gateway.wait(self.make())["attempts"], 2)
        wait_for(lambda: heard, "the loss")

    def test_a_cancelled_job_cannot_begin_an_effect(self):
        acts = []

        def handler(job):
            self.client.cancel(job.id)
            job.effect("mail", lambda: acts.append(1))

        job = self.outcome(handler, "cancelled")
        self.assertEqual((job["status"], acts), ("cancelled", []))

    def test_cancellation_is_no_exception_that_tools_swallow(self):
        self.assertFalse(issubclass(Cancelled, Exception))
        self.assertTrue(issubclass(LeaseLost, Exception))


class Stopping(WithWorkers):
    def test_a_handler_that_ends_within_the_grace_period_is_reported(self):
        begun, go = threading.Event(), threading.Event()
        worker = self.start(lambda _: (begun.set(), go.wait(PATIENCE_S)) and "done", grace_s=30)
        job = self.make()
        self.assertTrue(begun.wait(PATIENCE_S))
        worker.stop()
        go.set()
        worker.end()
        self.assertEqual(self.client.get_job(job)["result"], "done")

    def test_a_checkpoint_ends_a_run_that_is_to_be_handed_back_with_its_state_saved(self):
        begun = threading.Event()

        def handler(job):
            begun.set()
            job.cancelled.wait(PATIENCE_S)
            job.checkpoint({"at": 3})
            return "not reached"

        worker = self.start(handler, lease_s=60)
        job = self.make()
        self.assertTrue(begun.wait(PATIENCE_S))
        worker.end()
        back = self.client.get_job(job)
        self.assertEqual(
            (back["last_error"], back["checkpoint"]), ("the worker stopped", {"at": 3})
        )

    def test_a_handler_that_does_not_listen_is_not_handed_back_while_it_may_act(self):
        begun, go, errors = threading.Event(), threading.Event(), []

        def handler(job):
            begun.set()
            go.wait(PATIENCE_S)
            try:
                job.effect("mail", lambda: None)
            except Dropped as error:
                errors.append(error)

        worker = self.start(handler, lease_s=60)
        job = self.make()
        self.assertTrue(begun.wait(PATIENCE_S))
        worker.end()
        self.assertEqual(self.client.get_job(job)["status"], "running")
        go.set()
        wait_for(lambda: errors, "the handler to be refused")
        self.assertEqual(self.client.get_job(job)["effects"], [])


class Async(WithWorkers):
    def test_an_async_handler_has_the_same_calls(self):
        async def handler(job):
            self.assertIsInstance(job, AsyncJob)
            await job.progress("begun", percent=1)
            if job.checkpoint_state is None:
                await job.checkpoint({"at": 1})

            async def act(key):
                await asyncio.sleep(0)
                return {"key": bool(key)}

            first = await job.effect("mail", act)
            second = await job.effect("call", lambda: 2)
            await job.sleep(0.01)
            return [first, second, job.checkpoint_state]

        self.assertEqual(self.outcome(handler)["result"], [{"key": True}, 2, {"at": 1}])

    def test_an_async_handler_is_cancelled_when_its_lease_is_lost(self):
        dropped = threading.Event()

        async def handler(job):
            if job.attempt > 1:
                return "second"
            await asyncio.to_thread(
                self.client.fail, job.id, job.lease_token, "ended", retry_after_s=0
            )
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                dropped.set()
                raise

        self.start(handler, lease_s=1)
        self.assertEqual(self.gateway.wait(self.make())["result"], "second")
        self.assertTrue(dropped.wait(PATIENCE_S))

    def test_an_async_worker_shares_the_loop_it_is_awaited_on_and_stops_when_cancelled(self):
        async def scenario():
            loop = asyncio.get_running_loop()
            both = asyncio.Barrier(2) if hasattr(asyncio, "Barrier") else None

            async def handler(job):
                self.assertIs(asyncio.get_running_loop(), loop)
                if both is not None:
                    await both.wait()
                return await job.effect("mail", lambda: "sent")

            worker = AsyncWorker(
                self.client, "tests", handler, kinds=[self.kind], concurrency=2, wait_s=1
            )
            task = asyncio.create_task(worker.run())
            jobs = [await asyncio.to_thread(self.make) for _ in range(2)]
            done = [await asyncio.to_thread(self.gateway.wait, job) for job in jobs]
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return [job["result"] for job in done]

        self.assertEqual(asyncio.run(scenario()), ["sent", "sent"])

    def test_an_async_worker_hands_back_what_does_not_end_in_time(self):
        async def scenario():
            begun = asyncio.Event()

            async def handler(job):
                begun.set()
                await asyncio.sleep(3600)

            worker = AsyncWorker(
                self.client, "tests", handler, kinds=[self.kind], wait_s=1, grace_s=0
            )
            task = asyncio.create_task(worker.run(signals=False))
            job = await asyncio.to_thread(self.make)
            await begun.wait()
            worker.stop()
            await task
            return await asyncio.to_thread(self.client.get_job, job)

        self.assertEqual(asyncio.run(scenario())["last_error"], "the worker stopped")

    def test_an_async_worker_stops_on_sigterm(self):
        async def scenario():
            begun = asyncio.Event()

            async def handler(job):
                begun.set()
                await asyncio.sleep(3600)

            worker = AsyncWorker(
                self.client, "tests", handler, kinds=[self.kind], wait_s=1, grace_s=0
            )
            task = asyncio.create_task(worker.run())
            await asyncio.to_thread(self.make)
            await begun.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(task, PATIENCE_S)

        asyncio.run(scenario())

    def test_an_act_under_way_is_seen_through_and_no_other_is_begun_when_the_run_is_handed_back(
        self,
    ):
        async def scenario():
            acting = asyncio.Event()

            async def act():
                acting.set()
                await asyncio.sleep(1)
                return "sent"

            async def handler(job):
                await job.effect("mail", act)
                await job.effect("another", act)

            worker = AsyncWorker(
                self.client, "tests", handler, kinds=[self.kind], wait_s=1, grace_s=0
            )
            task = asyncio.create_task(worker.run(signals=False))
            job = await asyncio.to_thread(self.make)
            await acting.wait()
            worker.stop()
            await task
            return await asyncio.to_thread(self.client.get_job, job)

        job = asyncio.run(scenario())
        self.assertEqual((job["status"], job["last_error"]), ("pending", "the worker stopped"))
        self.assertEqual([effect["state"] for effect in job["effects"]], ["committed"])

    def test_a_commit_under_way_is_seen_through_when_the_run_is_handed_back(self):
        async def scenario():
            acted = asyncio.Event()
            commit = self.client.commit_effect

            def slow_commit(*arguments, **more):
                acted_loop.call_soon_threadsafe(acted.set)
                time.sleep(1)
                return commit(*arguments, **more)

            acted_loop = asyncio.get_running_loop()
            self.client.commit_effect = slow_commit
            self.addCleanup(delattr, self.client, "commit_effect")

            async def handler(job):
                await job.effect("mail", lambda: "sent")
                await asyncio.sleep(3600)

            worker = AsyncWorker(
                self.client, "tests", handler, kinds=[self.kind], wait_s=1, grace_s=0
            )
            task = asyncio.create_task(worker.run(signals=False))
            job = await asyncio.to_thread(self.make)
            await acted.wait()
            worker.stop()
            await task
            return await asyncio.to_thread(self.client.get_job, job)

        job = asyncio.run(scenario())
        self.assertEqual(job["last_error"], "the worker stopped")
        self.assertEqual([effect["state"] for effect in job["effects"]], ["committed"])


class Insisting(unittest.TestCase):
    LEASED: ClassVar = {"id": "job_1", "lease_token": "t", "run_id": "run_1", "attempt": 1}

    def work(self, handler, lease_s=30, **answers):
        """Lets a worker do one job on a server that answers so, until the worker has no job any more."""
        leases = [ok({"jobs": [self.LEASED]}), ok({"jobs": []})]
        beats = answers.pop("heartbeat", [ok({"jobs": [{"id": "job_1", "ok": True}]})])
        stub = Stub(ok(), lease=leases, heartbeat=beats, **answers)
        self.addCleanup(stub.close)
        ended = threading.Event()

        def handle(job):
            try:
                return handler(job)
            finally:
                ended.set()

        with Client(stub.url, KEY) as client:
            worker = Worker(client, "tests", handle, wait_s=1, lease_s=lease_s, grace_s=PATIENCE_S)
            thread = threading.Thread(target=worker.run)
            thread.start()
            self.assertTrue(ended.wait(PATIENCE_S))
            worker.stop()
            thread.join(PATIENCE_S)
            self.assertFalse(thread.is_alive())
        return stub

    def test_a_report_is_repeated_until_it_is_answered(self):
        refusals = [problem(503, "busy"), hang_up, problem(429, "slow_down"), ok()]
        stub = self.work(lambda _: 1, complete=refusals)
        self.assertEqual(stub.bodies("complete"), [{"lease_token": "t", "result": 1}] * 4)

    def test_a_reply_is_repeated_under_the_same_key(self):
        stub = self.work(lambda job: job.reply("hello"), reply=[hang_up, hang_up, ok()])
        keys = [h["Idempotency-Key"] for _, path, h, _ in stub.requests if path.endswith("reply")]
        self.assertEqual(keys, ["run_1:0"] * 3)

    def test_progress_that_does_not_get_through_is_dropped(self):
        stub = self.work(lambda job: job.progress("half"), progress=[hang_up])
        self.assertEqual((len(stub.bodies("progress")), len(stub.bodies("complete"))), (1, 1))

    def test_without_heartbeats_the_run_is_dropped_when_its_lease_ends_by_our_own_clock(self):
        ends = []

        def handler(job):
            try:
                job.sleep(PATIENCE_S)
            except Dropped as error:
                ends.append(error)
                raise

        stub = self.work(handler, lease_s=1, heartbeat=[hang_up])
        self.assertEqual(len(ends), 1)
        self.assertGreater(len(stub.bodies("heartbeat")), 1)
        self.assertEqual((stub.bodies("complete"), stub.bodies("fail")), ([], []))

    def test_an_effect_is_not_insisted_on_beyond_the_lease(self):
        acts = []
        stub = self.work(
            lambda job: job.effect("mail", lambda: acts.append(1)),
            lease_s=1,
            heartbeat=[hang_up],
            effects=[hang_up],
        )
        self.assertEqual((acts, stub.bodies("fail")), ([], []))

    def test_an_effect_that_needs_approval_ends_the_run_quietly(self):
        for word in ("needs_approval", "in_doubt"):
            decision = {"decision": word, "idempotency_key": "k", "proposal_hash": "h"}
            acts = []
            with self.subTest(word), self.assertNoLogs("wakepost", "WARNING"):
                stub = self.work(
                    lambda job, acts=acts: job.effect(
                        "mail", lambda: acts.append(1), description="a mail"
                    ),
                    effects=[ok(decision)],
                )
                self.assertEqual(stub.bodies("effects")[0]["description"], "a mail")
                self.assertEqual((acts, stub.bodies("complete"), stub.bodies("fail")), ([], [], []))


class CallingAnAct(unittest.TestCase):
    def test_an_act_gets_the_key_only_if_it_needs_an_argument(self):
        to = "someone"
        self.assertEqual(call_act(lambda key: key, "k"), "k")
        self.assertEqual(call_act(lambda *keys: keys, "k"), ("k",))
        self.assertEqual(call_act(lambda: "none", "k"), "none")
        self.assertEqual(call_act(lambda to=to: to, "k"), "someone")
        self.assertEqual(call_act(dict, "k"), {})
