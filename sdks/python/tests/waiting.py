"""Waiting for a condition, and never for a time."""

import time

#: Far more than anything here takes, also on a machine that is busy.
PATIENCE_S = 60.0


def wait_for(condition, what, patience_s=PATIENCE_S):
    """Waits until the condition answers something, and returns that."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")
