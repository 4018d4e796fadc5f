"""Stands in for the APIs of GitHub, Slack and Stripe, for trying the guides without an account.

    python3 examples/stand_in.py

It prints each call that it gets. Like Stripe it knows a repeat by its Idempotency-Key, and answers it as before.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

PORT = 9900
answers = {}


class Calls(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        is_json = self.headers.get_content_type() == "application/json"
        body = json.loads(text or "{}") if is_json else dict(parse_qsl(text))
        key = self.headers.get("Idempotency-Key")
        known = key in answers
        answer = answers.get(key) or self.answer(body)
        if key:
            answers[key] = answer
        print("again" if known else "call ", self.path, self.shown(body), flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def answer(self, body):
        number = len(answers) + 1
        if self.path.startswith("/api/chat."):
            answer = {
                "ok": True,
                "channel": body.get("channel"),
                "ts": body.get("ts", "1763449200.000900"),
            }
        elif self.path == "/v1/refunds":
            answer = {"id": f"re_{number}", "object": "refund", "status": "succeeded", **body}
        elif self.path.endswith("/labels"):
            answer = [{"name": name} for name in body["labels"]]
        else:
            answer = {"id": number}
        return json.dumps(answer).encode()

    def shown(self, body):
        names = ("labels", "thread_ts", "ts", "text", "payment_intent", "amount")
        return json.dumps({name: body[name] for name in names if name in body}, ensure_ascii=False)

    def log_message(self, *_words):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    server = ThreadingHTTPServer(("127.0.0.1", port), Calls)
    print(f"standing in on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
