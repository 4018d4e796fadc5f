"""Deliveries: seen by those who operate, and taken by those who pull."""

from __future__ import annotations

from typing import cast

from .core import Core, given, new_key
from .shapes import Beaten, DeliveryView, LeasedDelivery, Moved


class DeliveryCalls(Core):
    """The calls about an event's way to a webhook. Those with a lease token are for pull webhooks."""

    def get_delivery(self, delivery_id: str) -> DeliveryView:
        """One delivery, with its tries."""
        return cast(DeliveryView, self.call("GET", ["deliveries", delivery_id], repeat=True))

    def replay_delivery(self, delivery_id: str, note: str | None = None) -> Moved:
        """Delivers it once more, under the same `webhook-id`."""
        path = ["deliveries", delivery_id, "replay"]
        return cast(Moved, self.call("POST", path, given(note=note), idempotency_key=new_key()))

    def lease_deliveries(
        self,
        webhook_id: str,
        worker: str,
        *,
        max: int | None = None,
        wait_s: int | None = None,
        lease_s: int | None = None,
    ) -> list[LeasedDelivery]:
        """Leases deliveries of a pull webhook, waiting up to `wait_s` (0 to 30) for the first.

        Never repeated by itself: what an answer that got lost had is nobody's until its leases end.
        """
        body = {"worker": worker, **given(max=max, wait_s=wait_s, lease_s=lease_s)}
        path = ["webhooks", webhook_id, "deliveries", "lease"]
        answer = self.call("POST", path, body, timeout_s=self.timeout_s + (wait_s or 0))
        return cast("list[LeasedDelivery]", answer["deliveries"])

    def ack_delivery(
        self,
        delivery_id: str,
        lease_token: str,
        *,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Says that it was taken."""
        body = {"lease_token": lease_token}
        path = ["deliveries", delivery_id, "ack"]
        return cast(Moved, self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s))

    def nack_delivery(
        self,
        delivery_id: str,
        lease_token: str,
        error: str,
        *,
        retryable: bool | None = None,
        retry_after_s: int | None = None,
        hand_back: bool = False,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Moved:
        """Says that it was not taken. `retryable=False`: straight to the dead letters.

        `hand_back=True`: nothing went wrong, the consumer stops. No attempt is counted.
        """
        fields = given(
            retryable=retryable, retry_after_s=retry_after_s, hand_back=hand_back or None
        )
        body = {"lease_token": lease_token, "error": error, **fields}
        path = ["deliveries", delivery_id, "nack"]
        return cast(Moved, self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s))

    def heartbeat_delivery(
        self,
        delivery_id: str,
        lease_token: str,
        *,
        extend_s: int | None = None,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> Beaten:
        """Extends a lease."""
        body = {"lease_token": lease_token, **given(extend_s=extend_s)}
        path = ["deliveries", delivery_id, "heartbeat"]
        return cast(Beaten, self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s))
