"""The story: the agent is killed while its model thinks about a refund that was made. It is made once."""

import threading

from model import Model


def show(stage):
    model, refunds = Model(), []
    thinking, go_on = threading.Event(), threading.Event()

    def models(_path, _headers, body):
        refunded = sum(message["role"] == "tool" for message in body["messages"]) == 2
        if refunded and not go_on.is_set():
            thinking.set()
            go_on.wait(60)
        return 200, model.answer(body["messages"])

    def shop(path, headers, body):
        if path == "/refund_order":
            refunds.append(headers["Idempotency-Key"])
        return 200, {"order": body["order"], "refund": f"rf_{len(refunds)}"}

    places = {"MODEL_URL": stage.stand_in(models), "SHOP_URL": stage.stand_in(shop)}
    first = stage.agent(**places)
    stage.say("a customer asks for a refund")
    question = "My order 7 arrived broken, please refund it."
    job = stage.client.create_job({"question": question}, kind="support.request")

    assert thinking.wait(60), "the model was never asked after the refund"
    stage.say("the refund is made, the model thinks about it, and the agent is killed with kill -9")
    first.kill()
    go_on.set()
    second = stage.agent(**places)
    done = stage.wait(job["id"])
    stage.say(f"the next run went on with the saved conversation: {done['reply']!r}")
    stage.say(f"refunds made: {len(refunds)}, runs: {done['attempts']}")
    assert done["status"] == "succeeded" and done["attempts"] == 2, done
    assert len(refunds) == 1 and "rf_1" in done["reply"]
    assert not any("tool" in line for line in second.lines()), "a tool was used again"
