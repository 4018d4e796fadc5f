"""A tool-calling agent for any model with OpenAI's chat API, over plain HTTP.

See it at work, from the repository root: python3 examples/run.py tool-calling
On its own it needs WAKEPOST_URL, WAKEPOST_KEY, SHOP_URL, and MODEL_URL, MODEL and MODEL_KEY of your model.

Two things make it safe to kill at any moment. The conversation is saved as soon as the model has spoken, so the
next run has the same tool calls, with the same ids. And each tool call with a side effect is an effect under that
id, so it is done once.
"""

import http.client
import json
import os
from urllib.parse import urlsplit

from wakepost import Client, GiveUp, NotDone, Reply, Worker

MODEL_URL = os.environ.get("MODEL_URL", "https://api.openai.com/v1")
SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:9000")
#: A model that goes round in circles is stopped.
TURNS_MAX = 10

SYSTEM = "You work for a shop. Look orders up before you refund them. Say in the end what you did."
TOOLS = {
    "look_up_order": "Reads an order. No side effect.",
    "refund_order": "Pays an order back.",
}
#: Tools that change something outside.
SIDE_EFFECTS = {"refund_order"}

worker = Worker(Client(), "support", lease_s=5)


@worker.job("support.request")
def support(job):
    messages = job.checkpoint_state or [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": job.input["question"]},
    ]
    for _ in range(TURNS_MAX):
        job.check()
        if messages[-1]["role"] != "assistant":
            print(f"asking the model, {len(messages)} messages so far")
            messages.append(ask_model(messages))
            # Saved before anything is done about it: the next run must not ask again and get other calls.
            job.checkpoint(messages)
        calls = messages[-1].get("tool_calls")
        if not calls:
            return Reply(messages[-1]["content"])
        results = [
            {"role": "tool", "tool_call_id": c["id"], "content": use_tool(job, c)} for c in calls
        ]
        messages.extend(results)
        job.checkpoint(messages)
    raise GiveUp(f"the model did not come to an end in {TURNS_MAX} turns")


def use_tool(job, call):
    name = call["function"]["name"]
    arguments = json.loads(call["function"]["arguments"])
    if name not in TOOLS:
        return f"there is no tool {name}"
    print(f"tool {name} {arguments}")
    if name not in SIDE_EFFECTS:
        return json.dumps(post(f"{SHOP_URL}/{name}", arguments))
    result = job.effect(
        f"{name}:{call['id']}",
        lambda key: post(f"{SHOP_URL}/{name}", arguments, {"Idempotency-Key": key}),
        description=f"{name} {arguments}",
    )
    return json.dumps(result)


def ask_model(messages):
    parameters = {"type": "object", "properties": {"order": {"type": "string"}}}
    tools = [
        {
            "type": "function",
            "function": {"name": name, "description": text, "parameters": parameters},
        }
        for name, text in TOOLS.items()
    ]
    body = {"model": os.environ.get("MODEL", "gpt-4.1-mini"), "messages": messages, "tools": tools}
    headers = {"Authorization": f"Bearer {os.environ.get('MODEL_KEY', '')}"}
    answer = post(f"{MODEL_URL}/chat/completions", body, headers)
    return answer["choices"][0]["message"]


def post(url, body, headers=None):
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=60)
    try:
        headers = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", parts.path, json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if 400 <= answer.status < 500:
        # A refusal is a certain no: nothing happened, so a retry may do it. Outside an effect it is one as well.
        raise NotDone(f"{parts.path} answered {answer.status}")
    if answer.status >= 300:
        # Nobody knows: an effect is then in doubt.
        raise RuntimeError(f"{parts.path} answered {answer.status}")
    return json.loads(text)


if __name__ == "__main__":
    worker.run()
