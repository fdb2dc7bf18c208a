"""Relocating: a graph that was moved or copied gets its branches back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.core.maintenance.relocate import relocate_graph
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.graph.opening import graph_root


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocateResult:
    """The outcome of a relocation.

    Attributes:
        uri: The place of the graph.
        recorded: The other places that branches named until now; empty if there was nothing to do.
        files: How many version files of branches were looked at.
        changed: How many of them named another place; with `dry_run` they still do.
    """

    uri: str
    recorded: tuple[str, ...]
    files: int
    changed: int


def relocate(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> RelocateResult:
    """Make the branches of a graph work that was moved or copied as files.

    Branches name the files that they share by their full path. This writes the place where the
    graph is now into them. It may be repeated, also after it was interrupted; from the first call
    on nothing is read at the old place.

    Example:
        ```python
        import shutil

        with og.init("here.omni", schema="node Person { name: String @key }") as graph:
            graph.branches.create("dev")
        shutil.move("here.omni", "there.omni")
        assert og.relocate("there.omni").changed == 1
        ```

    Args:
        uri: Where the graph is now: a directory or `s3://bucket/prefix`.
        dry_run: Only look what there is to do.
        storage_options: How to reach S3; by default the usual `AWS_*` variables.

    Raises:
        NotFound: There is no graph.
        Busy: Another process makes or deletes branches, or relocates the graph.
    """
    root = graph_root(uri, storage_options)
    repo = Repository.open(root, components(root), OpenMode.READ_ONLY)
    try:
        found = relocate_graph(repo, dry_run=dry_run)
    finally:
        repo.close()
    return RelocateResult(
        uri=root.uri, recorded=found.recorded, files=found.files, changed=found.changed
    )
