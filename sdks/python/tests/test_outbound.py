"""Publishing, webhooks and pull mode: what is sent, what is repeated, and what a consumer promises."""

import asyncio
import json
import threading
import time
import unittest

from wakepost import Client, Consumer, GiveUp, LeaseLost, Retry, WakepostError

from .stub import Stub, hang_up, ok, problem
from .waiting import PATIENCE_S, wait_for


class WithStub(unittest.TestCase):
    def stub(self, *answers, **by_name):
        stub = Stub(*answers, **by_name)
        self.addCleanup(stub.close)
        client = Client(stub.url, "the key")
        self.addCleanup(client.close)
        return stub, client

    def keys(self, stub):
        return [headers["Idempotency-Key"] for _, _, headers, _ in stub.requests]


class Publishing(WithStub):
    def test_an_event_is_sent_with_all_it_says_and_nothing_else(self):
        stub, client = self.stub((202, {"id": "evt_1"}, {}))
        fields = {
            "api_version": "2026-11-15",
            "previous_attributes": {"total": 1},
            "livemode": False,
            "dedup_key": "ord_1:2",
            "order_key": "ord_1",
            "deliver_at": "2026-11-16T10:00:00.000Z",
        }
        self.assertEqual(client.publish("order.updated", {"id": 1}, **fields), {"id": "evt_1"})
        client.publish("order.created", None)
        method, path, _, body = stub.requests[0]
        self.assertEqual((method, path), ("POST", "/api/v1/events"))
        self.assertEqual(body, {"type": "order.updated", "data": {"id": 1}, **fields})
        self.assertEqual(stub.requests[1][3], {"type": "order.created", "data": None})

    def test_a_repeat_carries_the_same_key_and_another_call_another(self):
        stub, client = self.stub(hang_up, problem(503, "busy"), (202, {"id": "evt_1"}, {}))
        client.publish("order.created", {})
        client.publish("order.created", {})
        keys = self.keys(stub)
        self.assertEqual((len(keys), len(set(keys[:3]))), (4, 1))
        self.assertTrue(keys[0])
        self.assertNotEqual(keys[3], keys[0], "another event, though it looks the same")

    def test_what_the_caller_gave_is_what_counts(self):
        stub, client = self.stub(hang_up, (202, {"id": "evt_1"}, {}))
        client.publish("order.created", {}, dedup_key="mine")
        client.publish("order.created", {}, idempotency_key="own")
        self.assertEqual(self.keys(stub), [None, None, "own"])

    def test_many_are_repeated_under_one_key_or_under_their_own(self):
        answer = (202, {"data": [{"id": "evt_1"}, {"id": "evt_2"}]}, {})
        plain, keyed = {"type": "a.b", "data": 1}, {"type": "a.b", "data": 2, "dedup_key": "k"}
        stub, client = self.stub(hang_up, answer)
        self.assertEqual(client.publish_many([plain, plain])[1]["id"], "evt_2")
        keys = self.keys(stub)
        self.assertEqual((len(keys), len(set(keys)), bool(keys[0])), (2, 1, True))
        stub, client = self.stub(hang_up, answer)
        client.publish_many([keyed, keyed | {"dedup_key": "l"}])
        self.assertEqual(self.keys(stub), [None, None])
        # The server takes dedup keys or an idempotency key for an array, so what has none gets one.
        stub, client = self.stub(hang_up, answer)
        client.publish_many(row for row in (keyed, plain))
        self.assertEqual(self.keys(stub), [None, None])
        first, second = (body for _, _, _, body in stub.requests)
        self.assertEqual(first, second)
        self.assertEqual(first[0]["dedup_key"], "k")
        self.assertTrue(first[1]["dedup_key"])
        self.assertNotIn("dedup_key", plain, "what the caller has is left alone")

    def test_a_refusal_is_not_repeated_and_trouble_not_for_ever(self):
        errors = [{"field": "3.data", "message": "/total must be an integer"}]
        stub, client = self.stub((422, {"code": "invalid_request", "errors": errors}, {}))
        with self.assertRaises(WakepostError) as caught:
            client.publish_many([{"type": "a.b", "data": 1}])
        self.assertEqual((caught.exception.errors, len(stub.requests)), (errors, 1))
        stub, client = self.stub(problem(503, "busy"))
        with self.assertRaises(WakepostError):
            client.publish("a.b", {})
        self.assertEqual(len(stub.requests), 4)

    def test_an_event_published_by_a_run_goes_on_with_its_trace(self):
        stub, client = self.stub((202, {"id": "evt_1"}, {}))
        client.on_behalf_of("chain_1", "00-trace-span-01").publish("a.b", {})
        headers = stub.requests[0][2]
        both = (headers["wakepost-chain"], headers["traceparent"])
        self.assertEqual(both, ("chain_1", "00-trace-span-01"))


class Managing(WithStub):
    def test_every_call_goes_where_the_api_has_it(self):
        answer = {"id": "wh_1", "secret": "whsec_x", "operation_id": "op_1", "url": "u", "data": []}
        stub, client = self.stub(ok(answer))
        since = "2026-11-15T00:00:00.000Z"
        calls = [
            (
                client.create_webhook("https://a", ["order.*"], order=True, retry_s=(0, 10)),
                "POST webhooks",
                {"url": "https://a", "events": ["order.*"], "order": True, "retry_s": [0, 10]},
            ),
            (
                client.create_webhook(None, ["*"], mode="pull"),
                "POST webhooks",
                {"mode": "pull", "events": ["*"]},
            ),
            (client.list_webhooks(limit=5), "GET webhooks?limit=5", None),
            (client.get_webhook("wh_1"), "GET webhooks/wh_1", None),
            (
                client.update_webhook("wh_1", description="d", rate_per_s=None),
                "PATCH webhooks/wh_1",
                {"description": "d", "rate_per_s": None},
            ),
            (client.delete_webhook("wh_1"), "DELETE webhooks/wh_1", None),
            (client.test_webhook("wh_1", "a.b"), "POST webhooks/wh_1/test", {"type": "a.b"}),
            (
                client.rotate_webhook("wh_1", grace_s=60),
                "POST webhooks/wh_1/rotate",
                {"grace_s": 60},
            ),
            (client.revoke_previous_secret("wh_1"), "POST webhooks/wh_1/revoke-previous", {}),
            (
                client.pause_webhook("wh_1", keep=False),
                "POST webhooks/wh_1/pause",
                {"keep": False},
            ),
            (client.resume_webhook("wh_1"), "POST webhooks/wh_1/resume", {}),
            (client.enable_webhook("wh_1"), "POST webhooks/wh_1/enable", {}),
            (client.disable_webhook("wh_1"), "POST webhooks/wh_1/disable", {}),
            (
                client.recover_webhook("wh_1", since),
                "POST webhooks/wh_1/recover",
                {"since": since},
            ),
            (
                client.backfill_webhook("wh_1", since, since),
                "POST webhooks/wh_1/backfill",
                {"since": since, "until": since},
            ),
            (client.get_operation("op_1"), "GET operations/op_1", None),
            (
                client.list_webhook_deliveries("wh_1", status="held"),
                "GET webhooks/wh_1/deliveries?status=held",
                None,
            ),
            (client.webhook_stats("wh_1"), "GET webhooks/wh_1/stats", None),
            (client.list_events(cursor="c"), "GET events?cursor=c", None),
            (client.get_event("evt_1"), "GET events/evt_1", None),
            (client.list_event_deliveries("evt_1"), "GET events/evt_1/deliveries", None),
            (client.list_event_types(), "GET event-types", None),
            (
                client.create_event_type("a.b", description="d"),
                "POST event-types",
                {"name": "a.b", "description": "d"},
            ),
            (client.get_event_type("a.b"), "GET event-types/a.b", None),
            (
                client.put_event_type("a.b", versions={"v1": {"example": {}}}),
                "PUT event-types/a.b",
                {"versions": {"v1": {"example": {}}}},
            ),
            (client.delete_event_type("a.b"), "DELETE event-types/a.b", None),
            (client.get_delivery("dlv_1"), "GET deliveries/dlv_1", None),
            (client.replay_delivery("dlv_1"), "POST deliveries/dlv_1/replay", {}),
            (
                client.create_portal_link(tenant="acme", expires_s=60),
                "POST portal-links",
                {"tenant": "acme", "expires_s": 60},
            ),
        ]
        self.assertEqual(calls[7][0], "whsec_x")
        self.assertEqual(calls[13][0], "op_1")
        self.assertEqual(calls[-1][0], "u")
        for (_, expected, sent), (method, path, _, body) in zip(calls, stub.requests, strict=True):
            self.assertEqual(f"{method} {path.removeprefix('/api/v1/')}", expected)
            self.assertEqual(body, sent, expected)

    def test_what_a_repeat_could_do_twice_is_sent_once(self):
        for call in (
            lambda client: client.rotate_webhook("wh_1"),
            lambda client: client.test_webhook("wh_1"),
            lambda client: client.disable_webhook("wh_1"),
            lambda client: client.lease_deliveries("wh_1", "w"),
        ):
            stub, client = self.stub(problem(503, "busy"))
            with self.assertRaises(WakepostError):
                call(client)
            self.assertEqual(len(stub.requests), 1)


BODY = '{"id":"evt_1","type":"order.created","data":{"object":{"n":1}}}'
LEASED = {
    "id": "dlv_1",
    "lease_token": "t",
    "attempt": 2,
    "headers": {"Webhook-Id": "evt_1"},
    "body": BODY,
}


class Consuming(WithStub):
    def offering(self, *deliveries, **by_name):
        """A server with these deliveries, and nothing after them."""
        lease = [ok({"deliveries": list(deliveries)}), ok({"deliveries": []})]
        return self.stub(ok({"id": "dlv_1", "status": "succeeded"}), lease=lease, **by_name)

    def start(self, client, handler, **settings):
        settings = {"name": "tests", "wait_s": 1, "grace_s": 0, **settings}
        consumer = Consumer(client, "wh_1", handler, **settings)
        thread = threading.Thread(target=consumer.run, daemon=True)
        thread.start()

        def end():
            consumer.stop()
            thread.join(PATIENCE_S)
            self.assertFalse(thread.is_alive(), "the consumer does not stop")

        self.addCleanup(end)
        return end

    def answered(self, stub, word):
        return wait_for(lambda: stub.bodies(word), word)[0]

    def test_what_a_handler_took_is_acked(self):
        stub, client = self.offering(LEASED)
        got = []
        self.start(client, got.append, lease_s=30)
        self.assertEqual(self.answered(stub, "ack"), {"lease_token": "t"})
        [delivery] = got
        self.assertEqual((delivery.event_id, delivery.attempt), ("evt_1", 2))
        self.assertEqual(delivery.body, BODY.encode())
        self.assertEqual(delivery.event["data"]["object"], {"n": 1})
        asked = stub.bodies("lease")[0]
        self.assertEqual(asked, {"worker": "tests", "max": 1, "wait_s": 1, "lease_s": 30})
        paths = {path for _, path, _, _ in stub.requests}
        self.assertIn("/api/v1/webhooks/wh_1/deliveries/lease", paths)
        self.assertIn("/api/v1/deliveries/dlv_1/ack", paths)
        self.assertEqual(stub.bodies("nack"), [])

    def test_each_way_to_fail_says_what_follows(self):
        for error, expected in (
            (RuntimeError("oh"), {"error": "RuntimeError: oh"}),
            (Retry("busy", after_s=30), {"error": "busy", "retryable": True, "retry_after_s": 30}),
            (GiveUp("never"), {"error": "never", "retryable": False}),
        ):

            def handler(_, error=error):
                raise error

            stub, client = self.offering(LEASED)
            end = self.start(client, handler)
            self.assertEqual(self.answered(stub, "nack"), {"lease_token": "t", **expected})
            end()
            self.assertEqual(stub.bodies("ack"), [])

    def test_async_handlers_are_awaited(self):
        stub, client = self.offering(LEASED)
        got = []

        async def handler(delivery):
            await asyncio.sleep(0)
            got.append(delivery.id)

        self.start(client, handler)
        self.answered(stub, "ack")
        self.assertEqual(got, ["dlv_1"])

    def test_leases_are_kept_alive_one_call_for_each(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        stub, client = self.offering(LEASED, LEASED | {"id": "dlv_2", "lease_token": "u"})
        self.start(client, lambda _: go_on.wait(PATIENCE_S), concurrency=2, lease_s=1)
        wait_for(lambda: len(stub.bodies("heartbeat")) >= 6, "heartbeats of both")
        tokens = {body["lease_token"] for body in stub.bodies("heartbeat")}
        self.assertEqual(tokens, {"t", "u"})
        self.assertEqual(stub.bodies("heartbeat")[0]["extend_s"], 1)
        go_on.set()
        wait_for(lambda: len(stub.bodies("ack")) == 2, "both acks")

    def test_nothing_is_said_about_a_delivery_whose_lease_is_lost(self):
        lost = threading.Event()
        stub, client = self.offering(LEASED, heartbeat=[problem(409, "lease_lost")])

        def handler(delivery):
            wait_for(lambda: stub.bodies("heartbeat"), "a heartbeat")
            try:
                while True:
                    delivery.check()
                    time.sleep(0.01)
            finally:
                lost.set()

        end = self.start(client, handler, lease_s=1)
        self.assertTrue(lost.wait(PATIENCE_S))
        end()
        self.assertEqual(stub.bodies("ack") + stub.bodies("nack"), [])

    def test_a_consumer_that_stops_hands_back_what_it_has_not_taken(self):
        begun = threading.Event()
        stub, client = self.offering(LEASED)

        def handler(delivery):
            begun.set()
            while True:
                delivery.check()
                time.sleep(0.01)

        end = self.start(client, handler)
        self.assertTrue(begun.wait(PATIENCE_S))
        end()
        expected = {"lease_token": "t", "error": "the worker stopped", "hand_back": True}
        self.assertEqual(stub.bodies("nack"), [expected])

    def test_an_ack_is_repeated_until_it_is_answered_and_one_that_is_refused_kills_nothing(self):
        stub, client = self.offering(LEASED, ack=[hang_up, problem(503, "busy"), ok()])
        self.start(client, lambda _: None)
        wait_for(lambda: len(stub.bodies("ack")) == 3, "three acks")
        stub, client = self.offering(LEASED, ack=[problem(422, "invalid_request")])
        end = self.start(client, lambda _: None)
        self.answered(stub, "ack")
        end()
        # It was taken: to say otherwise would make a dead letter of it.
        self.assertEqual(stub.bodies("nack"), [])

    def test_a_server_that_is_away_is_waited_for_and_a_refusal_ends_it(self):
        found, none = ok({"deliveries": [LEASED]}), ok({"deliveries": []})
        lease = [hang_up, problem(503, "busy"), found, none]
        stub, client = self.stub(ok(), lease=lease)
        self.start(client, lambda _: None)
        self.answered(stub, "ack")
        _, client = self.stub(problem(404, "not_found"))
        with self.assertRaises(WakepostError) as caught:
            Consumer(client, "wh_1", lambda _: None).run()
        self.assertEqual(caught.exception.status, 404)

    def test_single_calls_are_there_for_loops_of_ones_own(self):
        stub, client = self.offering(LEASED, heartbeat=[problem(409, "lease_lost")])
        [leased] = client.lease_deliveries("wh_1", "w", max=3)
        self.assertEqual(json.loads(leased["body"])["id"], "evt_1")
        with self.assertRaises(LeaseLost):
            client.heartbeat_delivery(leased["id"], leased["lease_token"])
        client.nack_delivery(leased["id"], "t", "full", retry_after_s=3)
        client.ack_delivery(leased["id"], "t")
        self.assertEqual(
            stub.bodies("nack"), [{"lease_token": "t", "error": "full", "retry_after_s": 3}]
        )

    def test_settings_that_make_no_sense_are_refused_at_once(self):
        client = Client("http://127.0.0.1:1", "k")
        for wrong in ({"concurrency": 0}, {"lease_s": 0}, {"wait_s": 31}):
            with self.assertRaises(ValueError):
                Consumer(client, "wh_1", lambda _: None, **wrong)
