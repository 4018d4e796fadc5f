"""How long to wait before the same call again."""

from __future__ import annotations

import random

FIRST_S = 0.25
LAST_S = 15.0


class Backoff:
    """Doubles from a quarter of a second to 15 s, each spread over half to all of it.

    Spread, so that workers that lost their server together do not come back together.
    """

    def __init__(self) -> None:
        self._tries = 0

    def next(self) -> float:
        """The next wait, in seconds."""
        whole = min(FIRST_S * float(1 << min(self._tries, 10)), LAST_S)
        self._tries += 1
        return whole * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begins again, after a success."""
        self._tries = 0
