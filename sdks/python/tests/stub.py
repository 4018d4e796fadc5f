"""A server that answers what a test tells it to, for what a real one does not do on request."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stub:
    """Answers in turn; the last answer is given for ever. An answer is (status, body, headers), or a callable
    that gets the request's handler. Calls whose path ends with a name have answers of their own."""

    def __init__(self, *answers, tls=None, **by_name):
        self.requests = []
        self.connections = set()
        self._answers = {"": list(answers), **by_name}
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                stub._answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        with self._lock:
            read = json.loads(body) if body else None
            self.requests.append((handler.command, handler.path, handler.headers, read))
            self.connections.add(handler.client_address)
            answers = self._answers.get(handler.path.rpartition("/")[2]) or self._answers[""]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer(handler)
            return
        status, body, headers = answer
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(text)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text)

    def bodies(self, name):
        """What was sent in calls whose path ends with this name."""
        with self._lock:
            return [body for _, path, _, body in self.requests if path.endswith("/" + name)]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def hang_up(handler):
    """Reads the request and closes the connection without an answer."""
    handler.close_connection = True


def ok(body=None):
    """An answer that things went well."""
    return (200, {} if body is None else body, {})


def problem(status, code, detail="", **headers):
    """A refusal."""
    body = {"status": status, "code": code, "detail": detail}
    return (status, body, {name.replace("_", "-"): value for name, value in headers.items()})
