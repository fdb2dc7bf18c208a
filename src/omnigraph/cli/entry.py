"""The start of the process: a key press in a shell is answered before much is imported."""

import gc
import sys


def run() -> None:
    """Run the command line of this process, and end it."""
    # What imports make stays: `collect_again` says when there is something to look at.
    gc.disable()
    try:
        _run()
    finally:
        # The interpreter would go through everything once more before it ends.
        gc.freeze()


def _run() -> None:
    from omnigraph.cli.completing import ASKED, answer

    if sys.argv[1:2] == [ASKED]:
        sys.exit(answer(sys.argv[2:]))
    from omnigraph.cli.main import run as run_command
    from omnigraph.cli.startup import own_process

    own_process()
    run_command()


if __name__ == "__main__":
    run()
