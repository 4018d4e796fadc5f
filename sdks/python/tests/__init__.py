"""Tests of the SDK, by promise. Run them with `python3 -m unittest discover -s sdks/python`.

Those that need a server take it from `WAKEPOST_BIN`, and are skipped without one.
"""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

# Runs fail on purpose here.
logging.getLogger("wakepost").addHandler(logging.NullHandler())
logging.getLogger("wakepost").propagate = False
