"""Webhooks: who subscribed to which events, and how deliveries reach them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from .core import Core, given, new_key
from .shapes import DeliveryPage, Moved, Operation, Tried, Webhook, WebhookPage


class WebhookCalls(Core):
    """The calls of those who manage subscriptions."""

    def create_webhook(
        self,
        url: str | None,
        events: Sequence[str],
        *,
        mode: Literal["push", "pull"] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
        signature: Literal["hmac", "ed25519"] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Mapping[str, str] | None = None,
        rate_per_s: float | None = None,
        order: bool | None = None,
        timeout_s: int | None = None,
        retry_s: Sequence[int] | None = None,
        circuit_settings: Mapping[str, float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Webhook:
        """Subscribes `url` to `events` (`order.created`, `order.*`, `*`). The answer has the secret, once.

        A pull webhook (`mode="pull"`) has no URL: its deliveries are fetched, by a `Consumer`.
        """
        body = given(
            url=url,
            mode=mode,
            description=description,
            enabled=enabled,
            signature=signature,
            headers=headers,
            auth=auth,
            rate_per_s=rate_per_s,
            order=order,
            timeout_s=timeout_s,
            retry_s=list(retry_s) if retry_s is not None else None,
            circuit_settings=circuit_settings,
            metadata=metadata,
        )
        body["events"] = list(events)
        key = idempotency_key or new_key()
        return cast(Webhook, self.call("POST", ["webhooks"], body, idempotency_key=key))

    def list_webhooks(self, *, limit: int | None = None, cursor: str | None = None) -> WebhookPage:
        """One page of webhooks, newest first."""
        query = given(limit=limit, cursor=cursor)
        return cast(WebhookPage, self.call("GET", ["webhooks"], query=query, repeat=True))

    def get_webhook(self, webhook_id: str) -> Webhook:
        """One webhook, with how its circuit stands."""
        return cast(Webhook, self.call("GET", ["webhooks", webhook_id], repeat=True))

    def update_webhook(self, webhook_id: str, **fields: Any) -> Webhook:
        """Changes the fields of `create_webhook` that are named; None sets one back to its default."""
        return cast(Webhook, self.call("PATCH", ["webhooks", webhook_id], fields))

    def delete_webhook(self, webhook_id: str) -> None:
        """Deletes a webhook."""
        self.call("DELETE", ["webhooks", webhook_id])

    def test_webhook(self, webhook_id: str, type: str | None = None) -> Tried:
        """Sends a sample of this type now (else a ping), and returns what the receiver answered."""
        path = ["webhooks", webhook_id, "test"]
        return cast(Tried, self.call("POST", path, given(type=type)))

    def rotate_webhook(self, webhook_id: str, *, grace_s: int | None = None) -> str:
        """Makes a new secret and returns it, once. The old one signs too for `grace_s` (a day).

        Of a webhook that signs by Ed25519 it returns the new public key: the private one is shown to
        nobody. Not repeated: a second rotation would be another.
        """
        path = ["webhooks", webhook_id, "rotate"]
        rotated = self.call("POST", path, given(grace_s=grace_s))
        return cast(str, rotated.get("secret") or rotated["public_key"])

    def revoke_previous_secret(self, webhook_id: str) -> Moved:
        """Lets the old secret sign no more, from now on."""
        return self._move_webhook(webhook_id, "revoke-previous")

    def pause_webhook(self, webhook_id: str, *, keep: bool = True) -> Moved:
        """Sends nothing for now. Its events are kept until it is resumed, unless `keep=False`."""
        return self._move_webhook(webhook_id, "pause", keep=keep)

    def resume_webhook(self, webhook_id: str) -> Moved:
        """Goes on after a pause."""
        return self._move_webhook(webhook_id, "resume")

    def enable_webhook(self, webhook_id: str) -> Moved:
        """Sends again, after it was disabled."""
        return self._move_webhook(webhook_id, "enable")

    def disable_webhook(self, webhook_id: str) -> Moved:
        """Sends nothing any more; what waits goes to the dead letters."""
        return self._move_webhook(webhook_id, "disable")

    def _move_webhook(self, webhook_id: str, word: str, **fields: Any) -> Moved:
        return cast(Moved, self.call("POST", ["webhooks", webhook_id, word], fields))

    def recover_webhook(self, webhook_id: str, since: str, until: str | None = None) -> str:
        """Delivers again what failed in this time. Returns an operation's id, for `get_operation`."""
        return self._begin(webhook_id, "recover", since, until)

    def backfill_webhook(self, webhook_id: str, since: str, until: str | None = None) -> str:
        """Delivers events of this time that were never sent to it. Returns an operation's id."""
        return self._begin(webhook_id, "backfill", since, until)

    def _begin(self, webhook_id: str, word: str, since: str, until: str | None) -> str:
        body = {"since": since, **given(until=until)}
        path = ["webhooks", webhook_id, word]
        answer = self.call("POST", path, body, idempotency_key=new_key())
        return cast(str, answer["operation_id"])

    def get_operation(self, operation_id: str) -> Operation:
        """How far bulk work is."""
        return cast(Operation, self.call("GET", ["operations", operation_id], repeat=True))

    def list_webhook_deliveries(
        self,
        webhook_id: str,
        *,
        status: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> DeliveryPage:
        """One page of a webhook's deliveries, newest first."""
        query = given(status=status, limit=limit, cursor=cursor)
        path = ["webhooks", webhook_id, "deliveries"]
        return cast(DeliveryPage, self.call("GET", path, query=query, repeat=True))

    def webhook_stats(self, webhook_id: str) -> dict[str, Any]:
        """How a webhook does, in numbers."""
        path = ["webhooks", webhook_id, "stats"]
        return cast("dict[str, Any]", self.call("GET", path, repeat=True))
