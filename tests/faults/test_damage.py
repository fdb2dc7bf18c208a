"""Every kind of file, broken in every way: right answers or typed errors, and nothing else."""

from pathlib import Path

import pytest

from tests.faults.damaged import Damage, Patient, damages

# What a graph has, by kind.
KINDS = (
    "cache",
    "claim",
    "data of manifest",
    "data of manifest fork",
    "data of table",
    "data of table fork",
    "deletion of table",
    "hint of manifest",
    "hint of manifest fork",
    "hint of table",
    "hint of table fork",
    "index of table",
    "reference of manifest",
    "reference of table",
    "schema",
    "schema copy",
    "transaction of manifest fork",
    "transaction of table fork",
    "version of manifest",
    "version of manifest fork",
    "version of table",
    "version of table fork",
)
# What a cut may have left of the newest file is set aside, and the graph is as it was before.
SET_ASIDE = ("version of manifest", "version of manifest fork", "reference of manifest")
CUT = ("gone", "empty", "half", "without its last byte", "zeros", "another file")
FEW_PLACES, MANY_PLACES = 2, 12


def check(patient: Patient, path: Path, harms: list[Damage], kind: str) -> None:
    bad = []
    for harm in harms:
        found = patient.suffer(path, harm)
        if found is not None and not (kind in SET_ASIDE and harm.name in CUT):
            bad.append(f"{path.name}, {harm.name}: {found}")
    assert not bad, "\n".join(bad)


@pytest.fixture
def patient(folder: Path) -> Patient:
    return Patient(folder)


def other(patient: Patient, path: Path, files: list[Path]) -> bytes:
    return next((patient.content(each) for each in files if each != path), b"foreign")


def test_these_are_all_kinds(patient: Patient) -> None:
    assert sorted(patient.files()) == sorted(KINDS)


FIRST = ("data of manifest", "data of table", "version of table", "index of table", "cache")


@pytest.mark.parametrize("kind", FIRST)
def test_one_file_of_a_kind(patient: Patient, kind: str) -> None:
    files = patient.files()[kind]
    path = files[-1]
    content = patient.content(path)
    harms = list(damages(content, other(patient, path, files), places=1, masks=[0x80]))
    check(patient, path, harms[::2], kind)


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_every_file_of_a_kind(patient: Patient, kind: str) -> None:
    files = patient.files()[kind]
    for position, path in enumerate(files):
        content = patient.content(path)
        places = MANY_PLACES if position == len(files) - 1 else FEW_PLACES
        harms = damages(content, other(patient, path, files), places=places, masks=[0x01, 0x80])
        check(patient, path, list(harms), kind)


@pytest.mark.deep
def test_every_byte_of_the_newest_manifest_data(patient: Patient) -> None:
    """One of them made `open` ask for 18 GB."""
    path = patient.files()["data of manifest"][-1]
    content = patient.content(path)

    def flipped(place: int) -> Damage:
        changed = bytes([content[place] ^ 0x80])
        return Damage(f"byte {place}", content[:place] + changed + content[place + 1 :])

    # The end, where the file says how much there is of everything, and a sample of the rest.
    places = [*range(0, len(content) - 40, 97), *range(len(content) - 40, len(content))]
    check(patient, path, [flipped(place) for place in places], "data of manifest")


@pytest.mark.deep
def test_a_damaged_intent(folder: Path) -> None:
    patient = Patient(folder, with_intent=True)
    [path] = patient.files()["intent"]
    harms = damages(patient.content(path), b"foreign", places=MANY_PLACES, masks=[0x01, 0x80])
    check(patient, path, list(harms), "intent")
