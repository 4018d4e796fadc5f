"""What makes generated calls reach further than 404: real ids, live leases, and no call that waits or leaves the machine."""

import json
import os
import random
import urllib.error
import urllib.request

import requests
import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.core.parameters import ParameterLocation

BASE = os.environ["WAKEPOST_URL"]
KEY = os.environ["WAKEPOST_KEY"]

# What is tried out is mostly about things that are there.
REAL = 0.8
chance = random.Random(int(os.environ["WAKEPOST_SEED"]))

# Nobody listens there, and no other machine is asked.
NOWHERE = "http://127.0.0.1:9/"


send = requests.adapters.HTTPAdapter.send
places = random.Random(KEY)


def send_from_elsewhere(adapter, request, *args, **kwargs):
    """Each call is from another address: many wrong keys from one would be told to wait. The case does not know of it."""
    place = ".".join(str(places.randrange(1, 255)) for _ in range(3))
    request.headers["X-Forwarded-For"] = f"100.{place}"
    return send(adapter, request, *args, **kwargs)


requests.adapters.HTTPAdapter.send = send_from_elsewhere


def call(method, path, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data=data, method=method)
    request.add_header("authorization", f"Bearer {KEY}")
    request.add_header("content-type", "application/json")
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def post(path, body):
    return call("POST", "/api/v1" + path, body)


def tenant():
    return post("/tenants", {"slug": "tried", "name": "n"})["slug"]


def source():
    return post("/sources", {"provider": "github", "unsigned": True})["id"]


def event():
    """A received event, and its job's lease."""
    headers = {"x-github-event": "issues", "x-github-delivery": f"{chance.random()}"}
    body = {"action": "opened", "issue": {"id": 1, "number": 1, "title": "Broken"}}
    return call("POST", f"/in/{source()}", body, headers)["event_id"]


def job():
    return post("/jobs", {"kind": "waiting", "input": {"a": 1}})["id"]


def leased():
    # Another call that is tried out may take it first.
    for _ in range(5):
        kind = f"leased-{chance.random()}"
        post("/jobs", {"kind": kind, "input": {"a": 1}})
        jobs = post("/jobs/lease", {"worker": "w", "kinds": [kind], "wait_s": 1})["jobs"]
        if jobs:
            return jobs[0]["id"], jobs[0]["lease_token"]
    raise RuntimeError("no job could be leased")


def leased_with_effect():
    id, token = leased()
    post(f"/jobs/{id}/effects", {"lease_token": token, "key": "mail"})
    return id, token


def dead():
    id, token = leased()
    post(f"/jobs/{id}/fail", {"lease_token": token, "error": "no", "retryable": False})
    return id


def webhook():
    return post("/webhooks", {"mode": "pull", "events": ["never.happens"]})["id"]


def published():
    return post("/events", {"type": "order.made", "data": {"n": 1}})["id"]


def delivery():
    """A delivery that is pulled, and its lease."""
    id = post("/webhooks", {"mode": "pull", "events": ["order.*"]})["id"]
    published()
    lease = {"worker": "w", "wait_s": 5}
    leased = post(f"/webhooks/{id}/deliveries/lease", lease)["deliveries"][0]
    call("DELETE", f"/api/v1/webhooks/{id}")
    return leased["id"], leased["lease_token"]


def schedule():
    return post("/schedules", {"name": "n", "cron": "@yearly", "input": 1})["id"]


def fixture():
    name = f"f{chance.getrandbits(60)}"
    post(f"/inbox/{event()}/fixture", {"name": name})
    return name


def event_type():
    name = f"order.t{chance.getrandbits(60)}"
    post("/event-types", {"name": name})
    return name


def key():
    return post("/keys", {"name": "k", "role": "viewer"})["id"]


def own_key():
    """The key of these calls: made before all others."""
    return call("GET", "/api/v1/keys?limit=500")["data"][-1]["id"]


def operation():
    return post("/inbox/replay", {"filter": {}, "note": "n", "dry_run": True})["operation_id"]


def portal():
    return post("/portal-links", {})["url"].rsplit("/", 1)[1]


kept = {}


def one(make):
    """The same thing for all who only look."""
    if make not in kept:
        kept[make] = make()
    return kept[make]


# What ends a thing, or needs one in a state that it leaves, gets a new one each time.
OF_LEASE = {"heartbeat", "checkpoint", "progress", "reply", "complete", "fail", "effects"}


def real(path, method):
    """Parameters of the path, and fields of the body, about things that are there."""
    part = path.removeprefix("/api/v1/").split("/")
    ends = method == "DELETE"
    last = part[-1]
    if path.startswith("/in/"):
        return {"source_id": one(source)}, {}
    if path.startswith("/p/"):
        return {"token": one(portal)}, {}
    if path.startswith("/e/"):
        return {}, {}
    if path.startswith("/integrations/"):
        return {"platform": "github"}, {}
    if part[0] == "tenants":
        return {"slug": one(tenant)}, {}
    if part[0] == "sources":
        return {"id": source() if ends else one(source)}, {}
    if part[0] == "inbox":
        return {"event_id": one(event)}, {}
    if part[0] == "fixtures":
        return {"name": fixture() if ends else one(fixture)}, {"source": one(source)}
    if part[0] == "schedules":
        return {"id": schedule() if ends else one(schedule)}, {}
    if part[0] == "event-types":
        return {"name": event_type() if ends else one(event_type)}, {}
    if part[0] == "keys":
        return {"id": key()}, {}
    if part[0] == "operations":
        return {"id": one(operation)}, {}
    if part[0] == "dead-letters":
        return {"id": dead() if last == "replay" else one(dead)}, {}
    if part[0] == "webhooks":
        return {"id": webhook() if ends else one(webhook)}, {}
    if part[0] == "events":
        return {"id": one(published)}, {}
    if part[0] == "deliveries":
        id, token = delivery() if last in ("ack", "nack", "heartbeat") else one(delivery)
        return {"id": id}, {"lease_token": token}
    if part[0] == "jobs":
        if last in ("commit", "abort"):
            id, token = leased_with_effect()
            return {"id": id, "key": "mail"}, {"lease_token": token}
        if last == "resolve":
            return {"id": leased_with_effect()[0], "key": "mail"}, {}
        if last in OF_LEASE:
            id, token = leased()
            return {"id": id}, {"lease_token": token}
        if last == "replay":
            return {"id": dead()}, {}
        return {"id": job() if method == "POST" else one(dead)}, {}
    return {}, {}


def local(value, name=""):
    """The value with no address in it that leads anywhere else."""
    if isinstance(value, dict):
        return {name: local(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [local(item, name) for item in value]
    is_address = isinstance(value, str) and ("://" in value or name.endswith("url"))
    return NOWHERE if is_address and value else value


def is_valid(case, location):
    return case.meta is None or case.meta.components.get(location) is None or (
        case.meta.components[location].mode.is_positive
    )


@schemathesis.hook
def before_call(context, case, kwargs):
    path, method = case.operation.path, case.operation.method.upper()
    names, fields = {}, {}
    if chance.random() < REAL and "{" in path:
        try:
            names, fields = real(path, method)
        except urllib.error.HTTPError as refused:
            # What was made up before may be in the way: as many webhooks as there may be, a paused one.
            if refused.code != 409:
                raise
    if is_valid(case, ParameterLocation.PATH):
        for name, value in names.items():
            if name in case.path_parameters:
                case.path_parameters[name] = value
    # Whoever generates ids may have read ours in a list.
    if (method, path) == ("DELETE", "/api/v1/keys/{id}") and case.path_parameters.get("id") == one(own_key):
        case.path_parameters["id"] = key()
    # A stream ends when it is asked to, and nobody waits for work.
    if path.endswith("/stream") or path.endswith("/events") and "/jobs/" in path:
        case.query = {**(case.query or {}), "for_s": 0}
    if isinstance(case.body, (dict, list)):
        body = local(case.body)
        if isinstance(body, dict):
            if is_valid(case, ParameterLocation.BODY):
                body.update({name: value for name, value in fields.items() if name in body})
            if isinstance(body.get("wait_s"), int) and 0 <= body["wait_s"] <= 30:
                body["wait_s"] = 0
        if body != case.body:
            case.body = body


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """A batch is judged row by row: what is wrong with one is told in its row of the answer."""
    is_batch = case.operation.path in ("/api/v1/jobs/heartbeat", "/api/v1/jobs/finish")
    return not (is_batch and isinstance(failure, AcceptedNegativeData))
