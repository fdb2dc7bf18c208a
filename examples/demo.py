"""A walk through a graph, the two languages and the store. Run it with `make demo`.

Every output below comes from the library or from the `omnigraph` command, as it runs.
"""

import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from omnigraph.lang import QueryCompiler, compile_schema
from omnigraph.lang.catalog import canonical

FOLDER = Path(__file__).parent / "people"
OMNIGRAPH = Path(sys.executable).with_name("omnigraph")
console = Console(highlight=False)


def main() -> None:
    """Show one thing after the other."""
    title("1. A graph: change it, ask it, search it, branch it")
    run_example("graph.py")

    title("2. A schema says what may exist")
    compile_the_schema()

    title("3. Queries are checked against it before any data is touched")
    say("These twelve fit:")
    run("lint", "--schema", "people.pg", "--query", "queries.gq")
    say("These do not. All mistakes are reported at once, with their places:")
    run("lint", "--schema", "people.pg", "--query", "mistakes.gq", expect=1)

    title("4. There is one way to spell a query")
    say("The formatter keeps comments and decides everything else:")
    run("fmt", "--lang", "gq", "-", stdin=UNTIDY)

    title("5. A query becomes a plan")
    say("Who works with my friends, and is not a friend yet?")
    run("explain", "--schema", "people.pg", "--query", "queries.gq", "introductions")
    ask_the_library()

    title("6. A schema can change")
    say("Renames keep their data; every step says what it would do to stored rows:")
    run("schema", "plan", "--schema", "people_v2.pg", "--against", "people.pg")
    say("The way back would take a value from an enum, among other things, and is refused:")
    run("schema", "plan", "--schema", "people.pg", "--against", "people_v2.pg", expect=1)

    title("7. Below the languages: a commit, a crash and a recovery")
    run_example("storage.py")

    say("The files are in examples/people. Change them and try again.")


UNTIDY = """\
query elders($than:Date){   // by birthday
 match{$p:Person $p.born<$than
   not{$p worksAt $_}}
 return{$p.name as name,$p.born as born} order{born}limit 3 }
"""


def compile_the_schema() -> None:
    catalog = compile_schema((FOLDER / "people.pg").read_text(encoding="utf-8"), "people.pg")
    for node in catalog.nodes:
        properties = ", ".join(f"{item.name}: {item.type}" for item in node.properties)
        show(Text.assemble("  node ", (node.name, "bold"), f"  {properties}"))
    for edge in catalog.edges:
        ends = f"  {edge.source} -> {edge.target}"
        show(Text.assemble("  edge ", (edge.name, "bold"), ends))
    say(f"Its digest is {canonical.shape_digest(catalog)[:16]}, however the file is laid out.\n")


def ask_the_library() -> None:
    catalog = compile_schema((FOLDER / "people.pg").read_text(encoding="utf-8"), "people.pg")
    compiler = QueryCompiler(catalog)
    text = (FOLDER / "queries.gq").read_text(encoding="utf-8")
    plan = compiler.compile(text, "introductions")
    again = compiler.compile(text, "introductions")
    say(f"Compiled a second time it is remembered: {plan is again}.\n")


def run_example(name: str) -> None:
    sys.stdout.flush()
    subprocess.run([sys.executable, Path(__file__).with_name(name)], check=True)
    console.print()


def title(text: str) -> None:
    show(Text(text, "bold cyan"))


def say(text: str) -> None:
    show(Text(text))


def show(text: Text) -> None:
    # A pipe has no width to wrap at.
    console.print(text, soft_wrap=not console.is_terminal)


def run(*arguments: str, stdin: str | None = None, expect: int = 0) -> None:
    """Run the real command in the folder of the example, on this very terminal."""
    show(Text.assemble(("$ ", "green"), ("omnigraph " + " ".join(arguments), "bold")))
    # The command writes to the same place by itself, so what was printed so far must be out.
    sys.stdout.flush()
    answer = subprocess.run(
        [OMNIGRAPH, *arguments], cwd=FOLDER, input=stdin, encoding="utf-8", check=False
    )
    if answer.returncode != expect:
        sys.exit(f"omnigraph ended with {answer.returncode} and should have with {expect}")
    console.print()


if __name__ == "__main__":
    main()
