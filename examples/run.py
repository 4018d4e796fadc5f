"""Runs one example: python3 examples/run.py plain-python

It starts a server in a temporary directory, or uses the one at WAKEPOST_URL with WAKEPOST_KEY.
"""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sdks" / "python" / "src"))

from stage import Stage

EXAMPLES = Path(__file__).resolve().parent


def main():
    names = sorted(path.parent.name for path in EXAMPLES.glob("*/demo.py"))
    if len(sys.argv) != 2 or sys.argv[1] not in names:
        sys.exit(f"usage: python3 examples/run.py {'|'.join(names)}")
    directory = EXAMPLES / sys.argv[1]
    # The demo's own modules are found beside it.
    sys.path.insert(0, str(directory))
    show = runpy.run_path(str(directory / "demo.py"))["show"]
    with Stage(directory) as stage:
        show(stage)


if __name__ == "__main__":
    main()
