"""The story: the agent is killed in its third node. The next run begins there, and one mail is sent."""


def show(stage):
    mails = []

    def mail_server(_path, _headers, body):
        mails.append(body)
        return 200, {"id": f"mail_{len(mails)}"}

    place = stage.stand_in(mail_server)
    first = stage.agent(MAIL_URL=place)
    stage.say("a mail comes in")
    question = {"from": "ada@example.com", "question": "Where is my order 7?"}
    job = stage.client.create_job(question, kind="mail.received")

    first.wait_for("node draft")
    stage.say("the agent is killed with kill -9 in its third node")
    first.kill()
    second = stage.agent(MAIL_URL=place)
    done = stage.wait(job["id"])
    second.wait_for("node send")
    stage.say(f"the job {done['status']} in run {done['attempts']}: {done['result']['draft']!r}")
    stage.say(f"mails sent: {len(mails)}")
    assert done["status"] == "succeeded" and done["attempts"] == 2, done
    assert first.lines() == ["node classify", "node look_up", "node draft"]
    assert second.lines() == ["node draft", "node send"]
    assert len(mails) == 1
