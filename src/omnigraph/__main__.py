"""`python -m omnigraph`: the command line, where the script is not on the path."""

from omnigraph.cli.entry import run

if __name__ == "__main__":
    run()
