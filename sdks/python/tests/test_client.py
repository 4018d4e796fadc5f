"""Calls: what is sent, what is repeated, and what comes of a refusal."""

import re
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from wakepost import Client, LeaseLost, Unreachable, WakepostError
from wakepost.backoff import FIRST_S, LAST_S, Backoff
from wakepost.version import VERSION

from .gateway import WithGateway
from .stub import Stub, hang_up, ok, problem


class Calling(unittest.TestCase):
    def stub(self, *answers):
        stub = Stub(*answers)
        self.addCleanup(stub.close)
        client = Client(stub.url, "the key")
        self.addCleanup(client.close)
        return stub, client

    def test_connections_are_kept_and_shared_between_threads(self):
        stub, client = self.stub(ok({"id": "job_1"}))
        for _ in range(5):
            client.get_job("job_1")
        self.assertEqual(len(stub.connections), 1)
        threads = [threading.Thread(target=client.get_job, args=["job_1"]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(stub.requests), 13)

    def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(self):
        def answer_and_close(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", "2")
            handler.end_headers()
            handler.wfile.write(b"{}")
            handler.close_connection = True

        stub, client = self.stub(answer_and_close)
        for _ in range(3):
            # Not one that is repeated by itself.
            client.cancel("job_1")
            time.sleep(0.05)
        self.assertEqual(len(stub.requests), 3)

    def test_a_harmless_call_is_repeated_and_one_that_is_not_is_not(self):
        stub, client = self.stub(hang_up, problem(503, "busy"), ok({"id": "job_1"}))
        self.assertEqual(client.get_job("job_1"), {"id": "job_1"})
        self.assertEqual(len(stub.requests), 3)
        stub, client = self.stub(hang_up, ok({"jobs": []}))
        with self.assertRaises(Unreachable) as caught:
            client.lease("worker")
        self.assertTrue(caught.exception.is_transient)
        self.assertEqual(len(stub.requests), 1)

    def test_a_job_is_made_under_one_key_however_often_it_is_sent(self):
        stub, client = self.stub(hang_up, ok({"id": "job_1"}))
        client.create_job({"a": 1}, kind="mail")
        keys = {headers["Idempotency-Key"] for _, _, headers, _ in stub.requests}
        self.assertEqual((len(stub.requests), len(keys)), (2, 1))
        client.create_job(None)
        self.assertNotIn(stub.requests[-1][2]["Idempotency-Key"], keys)
        self.assertEqual(stub.requests[-1][3], {"input": None})

    def test_repeats_are_bounded(self):
        stub, client = self.stub(problem(503, "busy"))
        with self.assertRaises(WakepostError) as caught:
            client.get_job("job_1")
        self.assertEqual(caught.exception.code, "busy")
        self.assertEqual(len(stub.requests), 4)

    def test_a_refusal_carries_its_code_its_fields_and_when_to_come_back(self):
        body = {"code": "invalid_request", "errors": [{"field": "note", "message": "is required"}]}
        _, client = self.stub((422, body, {}), problem(429, "slow_down", Retry_After="7"))
        with self.assertRaises(WakepostError) as caught:
            client.release("job_1", "")
        error = caught.exception
        self.assertEqual((error.status, error.code), (422, "invalid_request"))
        self.assertEqual(error.errors, body["errors"])
        self.assertFalse(error.is_transient)
        with self.assertRaises(WakepostError) as caught:
            client.release("job_1", "")
        self.assertEqual(caught.exception.retry_after_s, 7)

    def test_what_is_not_wakeposts_answer_is_told_so(self):
        html = (502, b"<html>bad gateway</html>", {})
        moved = (302, b"", {"Location": "http://elsewhere/"})
        _, client = self.stub(html, moved, (200, b"<html>", {}))
        codes = []
        for _ in range(3):
            with self.assertRaises(WakepostError) as caught:
                client.cancel("job_1")
            codes.append((caught.exception.status, caught.exception.code))
        self.assertEqual(codes, [(502, ""), (302, "protocol"), (200, "protocol")])

    def test_a_lost_lease_has_a_type_of_its_own(self):
        _, client = self.stub(problem(409, "lease_lost", "stop"))
        with self.assertRaises(LeaseLost):
            client.heartbeat("job_1", "token")

    def test_an_answer_that_does_not_come_ends_in_time_even_if_it_drips(self):
        def drip(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            try:
                for _ in range(100):
                    handler.wfile.write(b" ")
                    time.sleep(0.05)
            except OSError:
                pass

        stub, _ = self.stub(drip)
        client = Client(stub.url, "the key", timeout_s=0.4)
        self.addCleanup(client.close)
        began = time.monotonic()
        with self.assertRaises(Unreachable):
            client.cancel("job_1")
        self.assertLess(time.monotonic() - began, 3)

    def test_an_answer_that_broke_off_is_no_answer(self):
        def break_off(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b"{}")
            handler.close_connection = True

        _, client = self.stub(break_off)
        with self.assertRaises(Unreachable):
            client.cancel("job_1")

    def test_a_path_that_is_one_text_is_a_mistake_and_nothing_is_sent(self):
        stub, client = self.stub(ok())
        with self.assertRaisesRegex(TypeError, "list of its parts"):
            client.call("GET", "stats")
        self.assertEqual(stub.requests, [])

    def test_jobs_made_on_behalf_of_a_run_say_what_led_to_them(self):
        stub, client = self.stub(ok({"id": "job_1", "data": []}))
        asking = client.on_behalf_of("chain_1", "00-trace-span-01")
        asking.create_job({}, mode="draft")
        asking.create_jobs([{"input": 1}])
        asking.get_job("job_1")
        client.create_job({})
        told = [(h.get("wakepost-chain"), h.get("traceparent")) for _, _, h, _ in stub.requests]
        both = ("chain_1", "00-trace-span-01")
        self.assertEqual(told, [both, both, (None, None), (None, None)])
        self.assertEqual(stub.requests[0][3], {"mode": "draft", "input": {}})

    def test_approvals_name_each_proposal(self):
        stub, client = self.stub(ok({"id": "job_1", "status": "pending"}))
        client.approve("job_1", {"mail:welcome": "abc"}, note="fine")
        client.reject("job_1", {"mail:welcome": "abc"})
        effects = [{"key": "mail:welcome", "proposal_hash": "abc"}]
        self.assertEqual(
            [(path, body) for _, path, _, body in stub.requests],
            [
                ("/api/v1/jobs/job_1/approve", {"effects": effects, "note": "fine"}),
                ("/api/v1/jobs/job_1/reject", {"effects": effects}),
            ],
        )

    def test_ids_and_keys_cannot_leave_their_place_in_the_path(self):
        stub, client = self.stub(ok())
        client.commit_effect("job_1", "token", "mail:a/../b?c#d")
        path = "/api/v1/jobs/job_1/effects/mail%3Aa%2F..%2Fb%3Fc%23d/commit"
        self.assertEqual(stub.requests[0][1], path)
        for bad in ("", ".", ".."):
            with self.assertRaises(ValueError):
                client.get_job(bad)

    def test_a_path_in_front_of_the_api_and_a_tenant_are_sent(self):
        stub, _ = self.stub(ok({"data": [], "next_cursor": None}))
        with Client(stub.url + "/hooks/", "k", tenant="acme") as client:
            client.list_jobs(status="held", limit=5)
        path = "/hooks/api/v1/jobs?status=held&limit=5&tenant=acme"
        self.assertEqual(stub.requests[0][1], path)

    def test_the_key_never_shows(self):
        self.assertNotIn("the key", repr(Client("http://127.0.0.1:1", "the key")))

    def test_a_url_or_key_that_cannot_be_right_is_refused(self):
        for url in ("127.0.0.1:8787", "ftp://host", "http://u:p@h", "http://"):
            with self.assertRaises(ValueError) as caught:
                Client(url, "k")
            self.assertNotIn(":p@", str(caught.exception))
        with self.assertRaises(ValueError):
            Client("http://host", "a\r\nb")

    def test_nobody_there_is_unreachable(self):
        with self.assertRaises(Unreachable):
            Client("http://127.0.0.1:1", "k").cancel("job_1")

    def test_what_is_not_json_is_refused_before_it_is_sent(self):
        stub, client = self.stub(ok())
        for value in (float("nan"), object(), {1: {2}}):
            with self.assertRaises(ValueError):
                client.create_job(value)
        self.assertEqual(stub.requests, [])

    def test_the_version_is_the_same_wherever_it_is_written(self):
        project = Path(__file__).resolve().parents[1]
        written = [project / "pyproject.toml", project.parents[1] / "Cargo.toml"]
        for path in filter(Path.exists, written):
            version = re.search(r'^version = "(.+)"$', path.read_text(), re.MULTILINE)[1]
            self.assertEqual(version, VERSION, path)

    def test_waits_grow_and_stay_bounded(self):
        backoff = Backoff()
        first = backoff.next()
        self.assertTrue(FIRST_S / 2 <= first <= FIRST_S)
        last = [backoff.next() for _ in range(100)][-1]
        self.assertTrue(LAST_S / 2 <= last <= LAST_S)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class CallingOverTls(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.certificate, key = f"{directory.name}/cert.pem", f"{directory.name}/key.pem"
        command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        files = ["-out", self.certificate, "-keyout", key]
        subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.stub = Stub(ok({"id": "job_1"}), tls=context)
        self.addCleanup(self.stub.close)

    def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(self):
        with Client(self.stub.url, "k") as client, self.assertRaises(Unreachable) as caught:
            client.cancel("job_1")
        self.assertIn("CERTIFICATE_VERIFY_FAILED", str(caught.exception))
        self.assertEqual(self.stub.requests, [])

    def test_a_certificate_of_ones_own_authority_can_be_trusted(self):
        trusted = ssl.create_default_context(cafile=self.certificate)
        with Client(self.stub.url, "k", tls=trusted) as client:
            for _ in range(3):
                self.assertEqual(client.get_job("job_1"), {"id": "job_1"})
        self.assertEqual(len(self.stub.connections), 1)


class CallingTheServer(WithGateway):
    def lease(self, **more):
        return self.client.lease("tests", kinds=[self.kind], wait_s=5, **more)

    def test_a_job_goes_its_way_by_single_calls(self):
        client = self.client
        made = client.create_job({"n": 1}, kind=self.kind, priority="interactive", max_attempts=2)
        [leased] = self.lease(lease_s=30)
        self.assertEqual((leased["id"], leased["input"]), (made["id"], {"n": 1}))
        job = (leased["id"], leased["lease_token"])
        self.assertFalse(client.heartbeat(*job, extend_s=60, cost=0.1)["cancel_requested"])
        [beaten] = client.heartbeats([{"id": job[0], "lease_token": job[1]}])
        self.assertTrue(beaten["ok"])
        client.checkpoint(*job, {"at": 1})
        client.progress(*job, "half", percent=50, step="one", data=[1])
        begun = client.begin_effect(*job, "mail:a/b", description="a mail", on_doubt="hold")
        self.assertEqual(begun["decision"], "execute")
        client.abort_effect(*job, "mail:a/b", "not sent")
        self.assertEqual(client.begin_effect(*job, "mail:a/b")["decision"], "execute")
        client.commit_effect(*job, "mail:a/b", {"id": 5})
        skipped = client.begin_effect(*job, "mail:a/b")
        self.assertEqual((skipped["decision"], skipped["result"]), ("skip", {"id": 5}))
        self.assertEqual(client.complete(*job, result=[1], cost=0.5)["status"], "succeeded")
        # A repeat of the call that finished it changes nothing.
        self.assertEqual(client.complete(*job, result=[1], cost=0.5)["status"], "succeeded")
        with self.assertRaises(LeaseLost):
            client.checkpoint(*job, {"at": 2})
        again = client.replay(job[0], "once more", scope="fresh")
        self.assertNotEqual(again["job_id"], job[0])

    def test_many_are_made_listed_and_finished_at_once(self):
        rows = [{"kind": self.kind, "input": n, "dedup_key": f"{self.kind}{n}"} for n in range(3)]
        ids = [job["id"] for job in self.client.create_jobs(rows)]
        self.assertEqual([job["id"] for job in self.client.create_jobs(rows)], ids)
        listed = [job["id"] for job in self.client.iter_jobs(kind=self.kind, limit=2)]
        self.assertEqual(sorted(listed), sorted(ids))
        leased = self.lease(max=3)
        tokens = [{"id": job["id"], "lease_token": job["lease_token"]} for job in leased]
        tokens[0]["outcome"] = "complete"
        tokens[1] |= {"outcome": "fail", "error": "no", "retryable": False}
        tokens[2] |= {"outcome": "complete", "lease_token": "stale"}
        answers = self.client.finish(tokens)
        self.assertEqual([answer["ok"] for answer in answers], [True, True, False])
        self.assertEqual(answers[2]["code"], "lease_lost")

    def test_a_job_that_waits_is_cancelled_at_once(self):
        made = self.client.create_job(1, kind=self.kind)
        self.assertEqual(self.client.cancel(made["id"], "no need")["status"], "cancelled")
        with self.assertRaises(WakepostError) as caught:
            self.client.release(made["id"], "why not")
        self.assertEqual(caught.exception.code, "invalid_state")
