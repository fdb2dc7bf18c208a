"""`omnigraph schema plan`."""

import json
from pathlib import Path

import pytest

from omnigraph.cli.commands.schema_plan import _note
from omnigraph.lang import compile_schema
from omnigraph.lang.catalog import canonical, steps
from omnigraph.lang.catalog.steps import DropMode, Step, StepSubject
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.values import Base, ValueType
from tests.cli.support import SCHEMA, invoke

WIDER = SCHEMA.replace("  born: Date?", '  birthday: Date? @rename_from("born")\n  city: String?')
NARROWER = SCHEMA.replace("  born: Date?", "  born: Date?\n  city: String")


def plan(*arguments: str, old: str = "people.pg", new: str = "new.pg") -> tuple[int, str]:
    answer = invoke("schema", "plan", "--schema", new, "--against", old, *arguments)
    assert answer.stderr == ""
    return answer.exit_code, answer.stdout


def test_steps_that_can_be_applied(folder: Path) -> None:
    (folder / "new.pg").write_text(WIDER, encoding="utf-8")
    assert plan() == (
        0,
        "step             entity                code  tier  data  note\n"
        "rename_property  node:Person.birthday  -     safe  none  was born\n"
        "add_property     node:Person.city      -     safe  none  String?\n"
        "\n"
        "2 steps, can be applied\n",
    )


def test_a_hint_that_names_nothing_is_noted(folder: Path) -> None:
    misspelt = WIDER.replace('@rename_from("born")', '@rename_from("bron")')
    (folder / "new.pg").write_text(misspelt, encoding="utf-8")
    status, text = plan()
    assert status == 0
    note = (
        "`node:Person.birthday` is renamed from `bron`, which does not exist, and `born` is "
        "dropped; did you mean `born`?"
    )
    assert f"\nnote: {note}\n" in text
    _, report = plan("--json")
    assert json.loads(report)["notes"] == [note]


def test_a_step_that_is_refused(folder: Path) -> None:
    (folder / "new.pg").write_text(NARROWER, encoding="utf-8")
    status, text = plan()
    assert status == 1
    assert "unsupported_change  node:Person.city  OG-MF-103  refused" in text
    assert text.endswith("\n1 step, 1 refused: cannot be applied\n")


@pytest.mark.usefixtures("folder")
def test_nothing_changes() -> None:
    assert plan(new="people.pg") == (0, "nothing changes\n")
    status, text = plan("--json", new="people.pg")
    assert (status, json.loads(text)) == (0, {"supported": True, "steps": [], "notes": []})


def test_the_json(folder: Path) -> None:
    (folder / "new.pg").write_text(NARROWER, encoding="utf-8")
    status, text = plan("--json")
    report = json.loads(text)
    assert (status, report["supported"]) == (1, False)
    assert [step["kind"] for step in report["steps"]] == ["unsupported_change"]


@pytest.mark.parametrize(("flags", "mode"), [((), "soft"), (("--allow-data-loss",), "hard")])
def test_drops_are_soft_unless_told(folder: Path, flags: tuple[str, ...], mode: str) -> None:
    (folder / "new.pg").write_text(SCHEMA.replace("  born: Date?\n", ""), encoding="utf-8")
    status, text = plan(*flags, "--json")
    assert status == 0
    assert [step["mode"] for step in json.loads(text)["steps"]] == [mode]


def test_a_catalog_is_as_good_as_its_schema(folder: Path) -> None:
    (folder / "new.pg").write_text(WIDER, encoding="utf-8")
    text = canonical.dumps(compile_schema(SCHEMA))
    (folder / "old.json").write_text(text, encoding="utf-8")
    assert plan(old="old.json") == plan(old="people.pg")


def test_a_file_that_is_no_catalog(folder: Path) -> None:
    (folder / "old.json").write_text('{"nodes": 3}', encoding="utf-8")
    answer = invoke("schema", "plan", "-s", "people.pg", "--against", "old.json")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("error[schema_invalid]: old.json does not hold a catalog: ")


_TYPE = ValueType(Base.I32)
_FILL = Literal(LiteralKind.INT, 7)
NOTES: list[tuple[Step, str]] = [
    (steps.AddType(entity=StepSubject(kind="node", name="A")), ""),
    (steps.RenameType(entity=StepSubject(kind="node", name="A"), old="B"), "was B"),
    (steps.AddProperty(entity=StepSubject(kind="node", name="A"), type=_TYPE), "I32"),
    (
        steps.AddProperty(entity=StepSubject(kind="node", name="A"), type=_TYPE, fill=_FILL),
        "I32, filled with 7",
    ),
    (
        steps.AddConstraint(entity=StepSubject(kind="node", name="A"), constraint="@index(a)"),
        "@index(a)",
    ),
    (steps.ExtendEnum(entity=StepSubject(kind="node", name="A"), added=("x", "y")), "adds x, y"),
    (
        steps.ChangeNullability(entity=StepSubject(kind="node", name="A"), nullable=False),
        "must have a value",
    ),
    (
        steps.ChangeDefault(entity=StepSubject(kind="node", name="A"), old=None, new=_FILL),
        "none -> 7",
    ),
    (
        steps.ChangeCardinality(entity=StepSubject(kind="edge", name="A"), old="0..1", new="0.."),
        "0..1 -> 0..",
    ),
    (
        steps.UpdateTypeMetadata(
            entity=StepSubject(kind="node", name="A"), changes=("description",)
        ),
        "description",
    ),
    (
        steps.DropType(entity=StepSubject(kind="node", name="A"), mode=DropMode.HARD),
        "the values go for good",
    ),
]


@pytest.mark.parametrize(("step", "note"), NOTES, ids=lambda item: getattr(item, "kind", None))
def test_notes(step: Step, note: str) -> None:
    assert _note(step.to_json()) == note
