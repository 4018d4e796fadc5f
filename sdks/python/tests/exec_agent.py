"""A command for the tests of `exec_job`: does what the job's input says."""

import os
import sys

import wakepost.run
from wakepost import Done, GiveUp, Retry, exec_job

if "INSIST_S" in os.environ:
    wakepost.run.INSIST_S = float(os.environ["INSIST_S"])


def agent(job):
    print("printed text is progress and not the answer")
    match job.input["do"]:
        case "work":
            job.progress("at it", percent=50)
            job.checkpoint({"at": 1})
            mail = job.effect("mail", lambda key: {"key": bool(key)})
            return Done({"attempt": job.attempt, "mail": mail}, reply="done", cost=0.25)
        case "give_up":
            raise GiveUp("no use")
        case "retry":
            raise Retry("busy", after_s=1000)
        case "raise":
            raise ValueError("broken")
        case "die_in_effect":
            if job.checkpoint_state is None:
                job.checkpoint({"died": True})
                job.effect("mail", lambda: os._exit(75))
            return job.effect("mail", lambda: "a second time")
        case "wait":
            job.checkpoint({"waits": True})
            job.sleep(3600)
    sys.exit("not reached")


exec_job(agent)
