"""What the agents under test act upon: an HTTP server that counts, refuses on request, and holds."""

import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .waiting import PATIENCE_S, wait_for


class Receiver:
    """Every POST is kept. `/at/NAME` waits until the test lets it go, if the test holds it."""

    def __init__(self):
        self.posts = []
        self.statuses = {}
        self._held = {}
        self._lock = threading.Lock()
        self._counts = defaultdict(int)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, text = receiver._take(self.path, dict(self.headers), body)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    pass  # The agent was killed meanwhile.

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _take(self, path, headers, body):
        with self._lock:
            self._counts[path] += 1
            number = self._counts[path]
            self.posts.append((path, headers, json.loads(body or b"null")))
            held = self._held.get(path)
            status = self.statuses.get(path, 200)
        if held is not None:
            held.wait(PATIENCE_S)
        return status, json.dumps({"number": number}).encode()

    def hold(self, name):
        """Makes `/at/NAME` wait; the answer lets it go."""
        held = threading.Event()
        self._held[f"/at/{name}"] = held
        return held.set

    def count(self, path):
        """How often this was posted."""
        with self._lock:
            return self._counts[path]

    def wait(self, path, times=1):
        """Waits until this was posted, and returns the last."""
        wait_for(lambda: self.count(path) >= times, f"{times} of {path}")
        with self._lock:
            return [post for post in self.posts if post[0] == path][-1]

    def close(self):
        for held in self._held.values():
            held.set()
        self._server.shutdown()
        self._server.server_close()
