"""The program `gausset`: `python -m gausset` and the command of the same name."""

import signal
import sys

from ._gausset import run_program


def main() -> int:
    """Run the program with the arguments of the process; return its exit code."""
    # The program saves and stops at Ctrl-C by itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_program(["gausset", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
