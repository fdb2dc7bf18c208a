"""A manifest whose newest version is gone: its branch shows an older state than was acknowledged.

The tables are right then, and what they hold beyond that state must not be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import MANIFEST
from omnigraph.errors import Code, Corrupt
from omnigraph.store.tables import Pin, Tables


@dataclass(frozen=True, slots=True)
class LostHead:
    """The file that is gone, and what to do."""

    file: str
    text: str

    def error(self) -> Corrupt:
        """The error of all that would drop what the file refers to."""
        return Corrupt(Code.CORRUPT, f"{self.file}: {self.text}", path=self.file)


def lost_head(tables: Tables, head: GraphVersion) -> LostHead | None:
    """Return whether a newer version of a branch was committed than the newest that is stored.

    Lance notes a version after it is stored, so a note is never ahead. We only set aside torn
    versions, and none of those was acknowledged.
    """
    noted = tables.noted_version(MANIFEST, head.fork)
    if noted is None or noted <= head.manifest_version:
        return None
    file = tables.version_file(Pin(MANIFEST, noted, head.fork))
    torn = {each.path for each in tables.quarantine.records()}
    if file in torn or tables.has_version(MANIFEST, noted, head.fork):
        return None
    text = (
        f"the newest version of branch '{head.branch}' is missing, so the branch shows an older "
        f"state, commit {head.head}: restore it from a backup before anything is written to it"
    )
    return LostHead(file, text)
