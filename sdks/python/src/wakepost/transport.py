"""One request over HTTP or HTTPS, on kept connections: answered in time, read up to a limit."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from .errors import Unreachable, WakepostError

#: The largest answer that is read: a page of 500 jobs with their payloads fits.
BODY_BYTES_MAX = 64 * 1024 * 1024
#: How many connections are kept when nobody uses them.
IDLE_MAX = 16
#: For how long. The server closes an idle connection after 10 s.
IDLE_S = 8.0

_CHUNK_BYTES = 64 * 1024


class Answer(NamedTuple):
    """An answer, read whole."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Transport:
    """A pool of connections to one server. Safe to use from many threads."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.username or parts.password:
            # Not repeated: it may hold a password.
            raise ValueError("the server's URL must not hold a user or password: use a key")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the server's URL {url!r} must begin with http:// or https://")
        self._host, self._port = parts.hostname, parts.port
        self.prefix = parts.path.rstrip("/")
        place = self._host if ":" not in self._host else f"[{self._host}]"
        port = "" if self._port is None else f":{self._port}"
        self.url = f"{parts.scheme}://{place}{port}{self.prefix}"
        self._tls = None
        if parts.scheme == "https":
            self._tls = context or ssl.create_default_context()
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Answer:
        """Sends one request. Redirects are answers like any other, so the key goes nowhere else."""
        deadline = time.monotonic() + timeout_s
        connection = self._take()
        good = False
        try:
            _allow(connection, deadline)
            connection.request(method, self.prefix + target, body, dict(headers))
            _allow(connection, deadline)
            response = connection.getresponse()
            with response:
                read = _read(connection, response, deadline)
            good = not response.will_close
            return Answer(response.status, response.headers, read)
        except TimeoutError:
            raise Unreachable(self.url, f"no answer within {timeout_s:.1f} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error
        finally:
            if good:
                self._give(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                since, connection = self._idle.pop() if self._idle else (0.0, None)
            if connection is None:
                return self._new()
            if time.monotonic() - since < IDLE_S and not _is_closed(connection.sock):
                return connection
            connection.close()

    def _give(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def _new(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port)
        return http.client.HTTPSConnection(self._host, self._port, context=self._tls)


def _allow(connection: http.client.HTTPConnection, deadline: float) -> None:
    """Gives the next step what is left of the time."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.timeout = left
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _read(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, deadline: float
) -> bytes:
    chunks: list[bytes] = []
    length = 0
    while True:
        # The response owns the socket of a connection that is about to close.
        if connection.sock is not None:
            _allow(connection, deadline)
        chunk = response.read1(_CHUNK_BYTES)
        if not chunk:
            break
        length += len(chunk)
        if length > BODY_BYTES_MAX:
            message = f"the answer is longer than {BODY_BYTES_MAX} bytes"
            raise WakepostError(response.status, "protocol", message)
        chunks.append(chunk)
    # `read1` takes an early end for the end.
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(chunks)


def _is_closed(sock: socket.socket | None) -> bool:
    """Whether the other side hung up: an idle connection has nothing to read but its end."""
    if sock is None:
        return True
    try:
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return True
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True
