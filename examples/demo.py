"""The whole story on a town of some hundred thousand entities. Run it with `make demo`.

A graph is made, filled by Spark and by this process, asked, searched, branched, merged, exported
and put in order. Every output below comes from the library or from the `omnigraph` command, as it
runs.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

import omnigraph as og

FOLDER = Path(__file__).parent / "people"
QUERIES = (FOLDER / "queries.gq").read_text(encoding="utf-8")
OMNIGRAPH = Path(sys.executable).with_name("omnigraph")
BRANCH = "spring-round"
# A pipe has no width; what goes there is neither wrapped nor cut at that of a terminal.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
Result = TypeVar("Result")
times: list[tuple[str, str, float]] = []


def main() -> None:
    """Show one thing after the other."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--people", type=int, default=100_000, help="how many live in the town")
    arguments.add_argument("--without-spark", action="store_true", help="load in this process")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-demo-") as folder:
        tell(Path(folder), chosen.people, spark=not chosen.without_spark)
    title("10. Where the time went")
    show_times()
    say(
        "The schema and the queries are in examples/people. Change them and try again; graph.py and"
    )
    say("storage.py beside them are shorter walks, through small graphs and below the languages.")


def tell(folder: Path, people: int, *, spark: bool) -> None:
    title("1. A schema says what may exist; queries are checked against it")
    say("Mistakes are all reported at once, with their places, before any data is touched:")
    run("lint", "--schema", "people.pg", "--query", "mistakes.gq", expect=1)

    title("2. A load of any size is one commit")
    with timed("make up a town", f"{people:,} people"):
        example("town.py", str(folder), str(people))
    with og.init(folder / "town.omni", schema=FOLDER / "people.pg", actor="demo") as graph:
        load(graph, folder / "town.jsonl", spark=spark)
        load_articles(graph, folder)

        title("3. Nothing half-right gets in")
        refuse(graph, folder / "newcomers.jsonl")

        title("4. Compact, and build the indexes")
        optimize(graph)

        title("5. Ask and search")
        ask(graph)

        title("6. A branch with a load on it, in one publish")
        branch(graph, folder / "spring.jsonl")

        title("7. Two agents on two branches, and what becomes of their work")
        merge(graph, folder)

        title("8. Out again")
        export(graph, folder)

    title("9. A schema can change, and a writer can die")
    say("Renames keep their data; every step says what it would do to stored rows:")
    run("schema", "plan", "--schema", "people_v2.pg", "--against", "people.pg")
    with timed("crash and recovery", "examples/storage.py"):
        example("storage.py")
    console.print()


# -- loads ---------------------------------------------------------------------------------------


def load(graph: og.Graph, path: Path, *, spark: bool) -> None:
    """By Spark, if there is one."""
    if spark:
        try:
            with timed("load NDJSON on Spark, its start included", "") as told:
                done = watched(lambda report: graph.load(path, engine="spark", progress=report))
                told(rate(done))
        except og.errors.InvalidInput as error:
            if error.code is not og.errors.Code.ENGINE_UNAVAILABLE:
                raise
            times.pop()
            say(f"Spark is left out: {error}")
        else:
            describe(done)
            return
    with timed("load NDJSON in this process", "") as told:
        done = watched(lambda report: graph.load(path, engine="inprocess", progress=report))
        told(rate(done))
    describe(done)


def load_articles(graph: og.Graph, folder: Path) -> None:
    """Tables, by the engine that suits their size."""
    source = {"Article": folder / "articles.parquet", "Wrote": folder / "wrote.parquet"}
    with timed("load Parquet with vectors", "") as told:
        done = graph.load(source)
        told(rate(done))
    describe(done)


def describe(done: og.LoadResult) -> None:
    # Nodes first, as people think of them.
    keys = sorted(done.counts, key=lambda key: (key.startswith("edge:"), key))
    counts = ", ".join(f"{plain(key)} {done.counts[key].inserted:,}" for key in keys)
    show(Text.assemble("  ", (done.engine, "bold"), f", because {done.reason}"))
    say(f"  commit {done.commit.id}: {counts}\n")


def refuse(graph: og.Graph, path: Path) -> None:
    try:
        with timed("refuse a load", "10,000 lines, 5 mistakes"):
            graph.load(path)
    except og.errors.ConstraintViolated as error:
        say("Everything that is wrong is said at once, and where:")
        table = grid("line", "rule", "what is wrong")
        for item in error.violations:
            table.add_row(f"{path.name}:{item['line']}", str(item["rule"]), str(item["message"]))
        put(table)


def optimize(graph: og.Graph) -> None:
    with timed("optimize", "") as told:
        done = watched(lambda report: graph.optimize(progress=report))
        told(f"{len(done.indexes)} indexes built")
    built = Counter(plain(key) for key, _ in done.indexes)
    before = sum(pair[0] for pair in done.fragments.values())
    after = sum(pair[1] for pair in done.fragments.values())
    indexes = ", ".join(f"{name} {count}" for name, count in built.items())
    say(f"{before} fragments became {after}; new indexes: {indexes}\n")


# -- questions -----------------------------------------------------------------------------------


def ask(graph: og.Graph) -> None:
    who = {"email": "ada0@example.org"}
    say("Colleagues of Ada's friends whom she does not know yet:")
    question(graph, "introductions", who, "hops, anti-join")
    say("The largest employers:")
    question(graph, "employers", {"since": 1750}, "group by, whole graph")
    say("Articles about weaving flowers (words are found in any form):")
    question(graph, "find_articles", {"words": "weaving flower"}, "text search, hop")
    say("Articles close to a vector and to a word, fused:")
    near = {"vector": [0.9, 0.1, 0.5, 0.2], "words": "bridge"}
    question(graph, "related_articles", near, "vector and text search")


def question(graph: og.Graph, name: str, params: Mapping[str, object], kind: str) -> None:
    """Ask twice: the first time reads what the second has in memory."""
    with timed(f"query {name}, first time", kind):
        rows = graph.query(QUERIES, params, name=name)
    with timed(f"query {name}, again", f"{kind}, {len(rows):,} rows"):
        graph.query(QUERIES, params, name=name)
    table = grid(*rows.columns)
    for row in rows.to_pylist()[:3]:
        table.add_row(*(str(row[column]) for column in rows.columns))
    put(table)


def branch(graph: og.Graph, path: Path) -> None:
    """A merge that changes one field of many people, and adds somebody."""
    with timed("merge onto a new branch", "") as told:
        done = graph.load(path, mode="merge", branch=BRANCH, create_from="main", actor="agent-42")
        told(rate(done))
    count = done.counts["node:Person"]
    say(f"Branch {BRANCH}: {count.updated:,} people changed, {count.inserted} new, by agent-42")
    leads = 'query q() { match { $p: Person { level: "lead" } } return { count($p) as leads } }'
    there, here = graph.query(leads, branch=BRANCH)[0], graph.query(leads)[0]
    say(f"Leads on {BRANCH}: {there['leads']:,}; on main still {here['leads']:,}\n")


def merge(graph: og.Graph, folder: Path) -> None:
    """Two agents change the same people; one merge is clean, the other one is not."""
    for name in ("agent/1", "agent/2"):
        graph.branches.create(name)
    born = 'update Person set { born: date("%s") } where email = "ada0@example.org"'
    edit(graph, "agent/1", born % "1815-12-10", "Ada is older")
    edit(graph, "agent/1", 'delete Person where email = "bo1@example.org"', "Bo has left")
    edit(graph, "agent/2", born % "1816-01-01", "Ada is younger")
    idle = 'update Person set { active: false } where email = "cy2@example.org"'
    edit(graph, "agent/2", idle, "Cy rests")
    say("What agent/1 did, as a diff:")
    changes = graph.diff("main", "agent/1")
    show(Text.from_ansi(changes.to_text(color=True)))
    with timed("merge agent/1", "fast-forward"):
        say(f"{graph.branches.merge('agent/1', message='what agent/1 found')}\n")
    say("agent/2 disagrees about one person:")
    found = graph.branches.merge("agent/2", dry_run=True)
    say(found.conflict_table())
    choices = folder / "choices.jsonl"
    found.write_resolutions(choices)
    say("Somebody fills in the choice, in a file that the dry run wrote, and it is applied:")
    settled = choices.read_text().replace('"choice": null', '"choice": "ours"')
    choices.write_text(settled)
    with timed("merge agent/2", "three-way, one conflict settled"):
        done = graph.branches.merge("agent/2", resolve=choices, message="what agent/2 found")
    say(f"{done}\n")
    say("What came of it, as a diff of main before both merges and now:")
    show(Text.from_ansi(graph.diff("main~2", "main").to_text(color=True)))
    say("The log of main:")
    say(graph.commits.log(limit=8))


def edit(graph: og.Graph, agent: str, statement: str, message: str) -> None:
    graph.mutate(f"query edit() {{ {statement} }}", branch=agent, actor=agent, message=message)


def export(graph: og.Graph, folder: Path) -> None:
    with timed("export the branch as one NDJSON file", "") as told:
        done = graph.export(folder / "backup.jsonl", branch=BRANCH)
        told(f"{sum(done.rows.values()):,} rows, {done.bytes / 1e6 / done.seconds:.0f} MB/s")
    say(f"{sum(done.rows.values()):,} rows, as of commit {done.commit}")
    with og.init(folder / "copy.omni", schema=FOLDER / "people.pg") as copy:
        with timed("load the export into a new graph", "") as told:
            again = copy.load(folder / "backup.jsonl")
            told(rate(again))
        same = copy.snapshot().counts == graph.snapshot(BRANCH).counts
        say(f"Loaded into a new graph, it has the same entities: {same}\n")


# -- telling -------------------------------------------------------------------------------------


@contextmanager
def timed(name: str, note: str) -> Iterator[Callable[[str], None]]:
    """Note how long something takes; the caller may add what it was."""
    told = [note]
    start = perf_counter()
    try:
        yield told.append
    finally:
        times.append((name, told[-1], perf_counter() - start))


def watched(work: Callable[[Callable[[og.Progress], None]], Result]) -> Result:
    """Run something that reports, and show its last report while it does."""
    if not console.is_terminal:
        return work(lambda _: None)
    with console.status("") as status:
        return work(
            lambda now: status.update(
                f"{now.operation} on {now.engine}: {now.stage}, {now.rows:,} rows, "
                f"{now.bytes_per_second / 1e6:.0f} MB/s"
            )
        )


def plain(table_key: str) -> str:
    """`node:Person` as people call it."""
    return table_key.partition(":")[2]


def rate(done: og.LoadResult) -> str:
    return f"{done.rows:,} rows, {done.rows / max(done.seconds, 1e-9):,.0f} rows/s"


def show_times() -> None:
    table = grid("what", "how much", "seconds")
    table.columns[2].justify = "right"
    for name, note, seconds in times:
        table.add_row(name, note, f"{seconds:.3f}")
    table.add_row("all of it", "", f"{sum(item[2] for item in times):.3f}", style="bold")
    put(table)


def grid(*headings: str) -> Table:
    return Table(*headings, box=None, header_style="bold", pad_edge=True)


def put(table: Table) -> None:
    console.print(table)
    console.print()


def title(text: str) -> None:
    show(Text(text, "bold cyan"))


def say(text: str) -> None:
    show(Text(text))


def show(text: Text) -> None:
    console.print(text, soft_wrap=not console.is_terminal)


def example(name: str, *arguments: str) -> None:
    """Run a file beside this one, on this very terminal."""
    sys.stdout.flush()
    subprocess.run([sys.executable, Path(__file__).with_name(name), *arguments], check=True)


def run(*arguments: str, expect: int = 0) -> None:
    """Run the real command in the folder of the example, on this very terminal."""
    show(Text.assemble(("$ ", "green"), ("omnigraph " + " ".join(arguments), "bold")))
    # The command writes to the same place by itself, so what was printed so far must be out.
    sys.stdout.flush()
    answer = subprocess.run([OMNIGRAPH, *arguments], cwd=FOLDER, encoding="utf-8", check=False)
    if answer.returncode != expect:
        sys.exit(f"omnigraph ended with {answer.returncode} and should have with {expect}")
    console.print()


if __name__ == "__main__":
    main()
