"""What the examples stand on: a server, agents that can be killed, and stand-ins for the outside world."""

import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from wakepost import Client

ROOT = Path(__file__).resolve().parents[1]
#: Far more than any step takes; building the server is not one of them.
PATIENCE_S = 60
#: What would be a setting of the server. An example must not write into somebody's database.
SETTINGS = {"DATABASE_URL", "WEBHOOK_BASE_URL", "APP_URL", "URL"}
#: States in which a job rests.
RESTING = {"succeeded", "dead_letter", "cancelled", "held", "awaiting_approval"}


class Stage:
    """Everything that an example starts, ended with it."""

    def __init__(self, directory):
        self._directory = directory
        self._ending = contextlib.ExitStack()
        self._began = time.monotonic()

    def __enter__(self):
        with self._ending as ending:
            url, key = os.environ.get("WAKEPOST_URL"), os.environ.get("WAKEPOST_KEY")
            if not (url and key):
                url, key = self._start_server(ending)
            self.key = key
            self.client = ending.enter_context(Client(url, key))
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_raised):
        self._ending.close()

    def say(self, text):
        """One line of the story, with the seconds since it began."""
        print(f"{time.monotonic() - self._began:5.1f}  {text}", flush=True)

    def agent(self, **variables):
        """Starts the example's agent; its lines become part of the story."""
        agent = Agent(self, self._directory / "agent.py", variables)
        self._ending.callback(agent.kill)
        return agent

    def stand_in(self, answer):
        """Starts an HTTP server that answers a POST with what `answer(path, headers, body)` returns."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self._ending.callback(server.server_close)
        self._ending.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def github_source(self):
        """Makes a source for GitHub's webhooks, as `webhookctl sources create github` does."""
        return self.client.call("POST", ["sources"], {"provider": "github"})

    def send_from_github(self, source, event, payload, delivery):
        """Sends an event as GitHub does, signed with the source's secret, and returns the answer."""
        body = json.dumps(payload).encode()
        digest = hmac.new(source["secret"].encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": delivery,
            "X-Hub-Signature-256": f"sha256={digest}",
        }
        url = f"{self.client.url}/in/{source['id']}"
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def wait(self, job_id):
        """Waits until the job rests, and returns it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            job = self.client.get_job(job_id)
            if job["status"] in RESTING:
                return job
            time.sleep(0.1)
        raise AssertionError(f"{job_id} is still {job['status']}")

    def _start_server(self, ending):
        directory = ending.enter_context(tempfile.TemporaryDirectory(prefix="wakepost-example-"))
        key = f"example-{uuid.uuid4().hex}"
        program = self._program()
        log = ending.enter_context((Path(directory) / "server.log").open("w+"))
        arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", directory]
        server = subprocess.Popen(
            [program, *arguments],
            cwd=directory,
            env={**_environment(), "WAKEPOST_ADMIN_KEY": key, "WAKEPOST_LOG_LEVEL": "warn"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        ending.callback(_end, server)
        for line in server.stdout:
            if found := re.search(r"listening on (http://\S+)", line):
                self.say(f"a server listens on {found[1]}")
                return found[1], key
        log.seek(0)
        raise AssertionError(f"the server did not start: {log.read()}")

    def _program(self):
        """The server that is there already, else the one that cargo builds."""
        if given := os.environ.get("WAKEPOST_BIN"):
            if not Path(given).exists():
                sys.exit(f"WAKEPOST_BIN names {given}, which is not there: `cargo build --release` makes a server")
            return str(Path(given).resolve())
        for profile in ("release", "debug"):
            built = ROOT / "target" / profile / "wakepost"
            if built.exists():
                return str(built)
        if shutil.which("cargo") is None:
            sys.exit("there is no server: build it with `cargo build --release`, or name it by WAKEPOST_BIN")
        self.say("building the server, which takes a few minutes the first time")
        build = ["cargo", "build", "--release", "-q", "-p", "wakepost-server"]
        subprocess.run(build, cwd=ROOT, check=True)
        return str(ROOT / "target" / "release" / "wakepost")


class Agent:
    """An agent as a process of its own."""

    def __init__(self, stage, program, variables):
        self._stage = stage
        self._lines = []
        self._changed = threading.Condition()
        source = str(ROOT / "sdks" / "python" / "src")
        self._process = subprocess.Popen(
            [sys.executable, "-u", str(program)],
            env={
                **_environment(),
                "PYTHONPATH": source,
                "WAKEPOST_URL": stage.client.url,
                "WAKEPOST_KEY": stage.key,
                **variables,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_for(self, text):
        """Waits until the agent has printed a line with this text."""
        with self._changed:
            said = self._changed.wait_for(
                lambda: any(text in line for line in self._lines), PATIENCE_S
            )
        assert said, f"the agent never said {text!r}"

    def lines(self):
        """What it has printed so far."""
        with self._changed:
            return list(self._lines)

    def kill(self):
        """Kills it where it stands, as `kill -9` does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _listen(self):
        with self._process.stdout as output:
            for line in output:
                self._stage.say(f"  agent: {line.rstrip()}")
                with self._changed:
                    self._lines.append(line.rstrip())
                    self._changed.notify_all()


def _environment():
    """Ours, without what would be a setting of the server."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in SETTINGS and not name.startswith("WAKEPOST_")
    }


def _end(process):
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _handler(answer):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
            status, answered = answer(self.path, self.headers, body)
            text = json.dumps(answered).encode()
            # Whoever asked may have been killed meanwhile.
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, *_):
            pass

    return Handler
