"""An agent as a graph of nodes, in the manner of LangGraph: classify, look up, draft, send.

See it at work, from the repository root: python3 examples/run.py langgraph-style
On its own it needs WAKEPOST_URL, WAKEPOST_KEY and MAIL_URL.
"""

import json
import os
import urllib.error
import urllib.request

from graph import END, Graph
from wakepost import Client, NotDone, Worker

MAIL_URL = os.environ.get("MAIL_URL", "http://127.0.0.1:9000")

graph = Graph(start="classify")
worker = Worker(Client(), "mail-graph", lease_s=5)


@graph.node(then=lambda state: "look_up" if state["topic"] == "order" else "draft")
def classify(_job, state):
    print("node classify")
    return {"topic": "order" if "order" in state["question"].lower() else "other"}


@graph.node(then="draft")
def look_up(_job, _state):
    print("node look_up")
    return {"facts": "order 7 was shipped yesterday"}


@graph.node(then="send")
def draft(job, state):
    print("node draft")
    # Where a model would think for a while.
    job.sleep(2)
    return {"draft": f"Good news: {state.get('facts', 'we will look into it')}."}


@graph.node(then=END)
def send(job, state):
    print("node send")
    mail = {"to": state["from"], "text": state["draft"]}
    sent = job.effect("mail:answer", lambda key: send_mail(mail, key), description="the answer")
    return {"sent": sent["id"]}


@worker.job("mail.received")
def answer_mail(job):
    return graph.run(job, job.input)


def send_mail(mail, key):
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = urllib.request.Request(MAIL_URL, json.dumps(mail).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code < 500:
            # A refusal is a certain no, so a retry may do it. After anything else nobody would know.
            raise NotDone(f"the mail server answered {error.code}") from error
        raise


if __name__ == "__main__":
    worker.run()
