"""An agent in plain Python: it reads new GitHub issues, and comments on each once.

See it at work, from the repository root: python3 examples/run.py plain-python
On its own it needs WAKEPOST_URL, WAKEPOST_KEY, and GITHUB_URL if not https://api.github.com.
"""

import json
import os
import urllib.error
import urllib.request

from wakepost import Client, NotDone, Worker

GITHUB_URL = os.environ.get("GITHUB_URL", "https://api.github.com")

worker = Worker(Client(), "triage", concurrency=4, lease_s=10)


@worker.job("issues.opened")
def triage(job):
    issue = job.envelope["data"]["issue"]
    repository = job.envelope["data"]["repository"]["full_name"]
    job.progress(f"reading issue {issue['number']}", percent=10)
    label = label_for(issue["title"])

    # Done once, whatever is killed when: a run after this one gets the stored answer.
    comment = job.effect(
        "comment:triage",
        lambda key: post_comment(repository, issue["number"], f"Thanks! Filed as {label}.", key),
        description=f"comment on {repository}#{issue['number']}",
    )
    print(f"commented on issue {issue['number']}: {comment['id']}")
    return {"label": label, "comment": comment["id"]}


def label_for(title):
    """Where your model would go."""
    return (
        "bug" if any(word in title.lower() for word in ("broke", "crash", "fail")) else "question"
    )


def post_comment(repository, number, text, key):
    request = urllib.request.Request(
        f"{GITHUB_URL}/repos/{repository}/issues/{number}/comments",
        json.dumps({"body": text}).encode(),
        {"Content-Type": "application/json", "Idempotency-Key": key}
        | {"Authorization": f"Bearer {os.environ.get('GITHUB_TOKEN', '')}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return {"id": json.load(answer)["id"]}
    except urllib.error.HTTPError as error:
        if error.code < 500:
            # GitHub refused: it certainly did not happen, so a retry may do it.
            raise NotDone(f"GitHub answered {error.code}") from error
        raise


if __name__ == "__main__":
    worker.run()
