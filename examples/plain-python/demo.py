"""The story: GitHub sends one event three times, and the issue gets one comment."""

import uuid


def show(stage):
    comments = []

    def github(path, _headers, body):
        comments.append((path, body["body"]))
        return 201, {"id": len(comments)}

    agent = stage.agent(GITHUB_URL=stage.stand_in(github))
    source = stage.github_source()
    stage.say("GitHub sends a signed event three times, as it does when answers get lost")
    payload = {
        "action": "opened",
        "issue": {"number": 42, "title": "It broke"},
        "repository": {"full_name": "acme/rocket"},
        "sender": {"id": 1, "login": "ada"},
    }
    delivery = str(uuid.uuid4())
    answers = [stage.send_from_github(source, "issues", payload, delivery) for _ in range(3)]
    for answer in answers:
        stage.say(f"  answer: {answer['status']} {answer['event_id']}")

    job = stage.wait(answers[0]["job_id"])
    agent.wait_for("commented on issue 42")
    stage.say(f"the job {job['status']} with {job['result']}")
    stage.say(f"GitHub got {len(comments)} comment: {comments[0][1]!r}")
    assert [answer["status"] for answer in answers] == ["accepted", "duplicate", "duplicate"]
    assert job["status"] == "succeeded" and len(comments) == 1
