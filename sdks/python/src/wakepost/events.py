"""Events of one's own, published to whoever subscribed; and the catalogue of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from .core import Core, given, new_key
from .shapes import DeliveryPage, EventPage, EventType, EventTypePage, PublishedEvent


class EventCalls(Core):
    """The calls of those who publish."""

    def publish(
        self,
        type: str,
        data: Any,
        *,
        api_version: str | None = None,
        previous_attributes: Mapping[str, Any] | None = None,
        livemode: bool | None = None,
        dedup_key: str | None = None,
        order_key: str | None = None,
        deliver_at: str | None = None,
        idempotency_key: str | None = None,
    ) -> PublishedEvent:
        """Publishes an event. Once it returns, the event is stored, and is delivered from then on.

        `data` is what it happened to; subscribers get it as `data.object`. It is repeated while the server is
        away, and published once: by its `dedup_key` (30 days), by your `idempotency_key`, or else by a key
        that is made here.
        """
        body = given(
            api_version=api_version,
            previous_attributes=previous_attributes,
            livemode=livemode,
            dedup_key=dedup_key,
            order_key=order_key,
            deliver_at=deliver_at,
        )
        # Even when it is null, data is needed.
        body |= {"type": type, "data": data}
        if idempotency_key is None and dedup_key is None:
            idempotency_key = new_key()
        return cast(PublishedEvent, self._publish(body, idempotency_key))

    def publish_many(
        self, events: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[PublishedEvent]:
        """Publishes up to 1,000 events, all or none: each with `type`, `data` and the fields of `publish`."""
        rows = [dict(event) for event in events]
        if idempotency_key is None:
            if not any(row.get("dedup_key") for row in rows):
                idempotency_key = new_key()
            else:
                # An array has dedup keys or one idempotency key. Where some events have a dedup key, the others
                # get one that nobody else has: else a repeat would publish those twice.
                for row in rows:
                    row["dedup_key"] = row.get("dedup_key") or new_key()
        answer = self._publish(rows, idempotency_key)
        return cast("list[PublishedEvent]", answer["data"])

    def _publish(self, body: Any, idempotency_key: str | None) -> Any:
        return self.call(
            "POST",
            ["events"],
            body,
            idempotency_key=idempotency_key,
            headers=self._asker,
            repeat=True,
        )

    def list_events(
        self,
        *,
        type: str | None = None,
        dedup_key: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> EventPage:
        """One page of what was published, newest first; `type`: one, or a beginning such as `order.*`."""
        query = given(
            type=type, dedup_key=dedup_key, since=since, until=until, limit=limit, cursor=cursor
        )
        return cast(EventPage, self.call("GET", ["events"], query=query, repeat=True))

    def get_event(self, event_id: str) -> PublishedEvent:
        """One event that was published."""
        return cast(PublishedEvent, self.call("GET", ["events", event_id], repeat=True))

    def list_event_deliveries(
        self, event_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> DeliveryPage:
        """Where an event went, and how that went."""
        query = given(limit=limit, cursor=cursor)
        path = ["events", event_id, "deliveries"]
        return cast(DeliveryPage, self.call("GET", path, query=query, repeat=True))

    def list_event_types(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> EventTypePage:
        """One page of the catalogue."""
        query = given(limit=limit, cursor=cursor)
        return cast(EventTypePage, self.call("GET", ["event-types"], query=query, repeat=True))

    def create_event_type(
        self,
        name: str,
        *,
        description: str | None = None,
        versions: Mapping[str, Mapping[str, Any]] | None = None,
        idempotency_key: str | None = None,
    ) -> EventType:
        """Registers a type; `versions`: version → its `schema`, `example` and `change`."""
        body = {"name": name, **given(description=description, versions=versions)}
        key = idempotency_key or new_key()
        return cast(EventType, self.call("POST", ["event-types"], body, idempotency_key=key))

    def get_event_type(self, name: str) -> EventType:
        """One type of event."""
        return cast(EventType, self.call("GET", ["event-types", name], repeat=True))

    def put_event_type(
        self,
        name: str,
        *,
        description: str | None = None,
        versions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> EventType:
        """Registers a type, or puts this in the place of what was there: all of it."""
        body = given(description=description, versions=versions)
        answer = self.call("PUT", ["event-types", name], body, repeat=True)
        return cast(EventType, answer)

    def delete_event_type(self, name: str) -> None:
        """Takes a type out of the catalogue; events of it stay."""
        self.call("DELETE", ["event-types", name])

    def create_portal_link(
        self, *, tenant: str | None = None, expires_s: int | None = None
    ) -> str:
        """A link that opens a subscriber's own portal. Whoever has it may use it, so it is as good as a key."""
        body = given(tenant=tenant, expires_s=expires_s)
        answer = self.call("POST", ["portal-links"], body, idempotency_key=new_key())
        return cast(str, answer["url"])
