"""Strict commits: a version is placed exactly where it was announced, or refused.

Lance rebases a commit whose base is no longer the head and lands it later, even with
``max_retries=0``. It also lets a "namespace" place the manifests that it writes. We pass one that
takes a manifest only for the announced version and gives it its final name by a create-only step.
So the last word is ours, for every kind of commit, against every other process: one link on local
disk, one conditional put on S3. Readers need nothing of this; names and contents stay Lance's own,
but for a checksum that it passes over (see ``version_checksums``).

The object that Lance calls is duck-typed: its base class would cost a second of imports.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.version_checksums import add_checksum
from omnigraph.store.io.durability import link, unlink
from omnigraph.store.io.objects import Backend, open_backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.root import Root
from omnigraph.store.versions.files import Files, manifest_name

__all__ = ["ExactVersion", "Placer", "open_placer"]


class Placer(Protocol):
    """Gives a written manifest its final name, create-only."""

    def place(self, folder: str, staging: str, final: str) -> int | None:
        """Do it, or fail with EXISTS; durable on return.

        Returns:
            The size of the file, if it is not the one that Lance wrote.
        """
        ...


def open_placer(root: Root, files: Files) -> Placer:
    """Return the way to place manifests below a root."""
    if root.is_local:
        return _LocalPlacer(root.local_path, files)
    return _ObjectPlacer(open_backend(root))


class _LocalPlacer:
    """A hard link: create-only, and the content is synced before the name exists."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files

    def place(self, folder: str, staging: str, final: str) -> int | None:
        source, target = self._root / folder / staging, self._root / folder / final
        size = add_checksum(source)
        self._files.sync_contents([source])
        link(source, target)
        self._files.sync_names([target])
        with suppress(OSError):
            unlink(source)
        return size


class _ObjectPlacer:
    """A conditional put of the same bytes: no object store offers a create-only rename."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def place(self, folder: str, staging: str, final: str) -> int | None:
        source, target = f"{folder}/{staging}", f"{folder}/{final}"
        self._backend.put_new(target, self._backend.get(source))
        # What stays behind is junk that a clean-up takes; the commit is done.
        with suppress(Exception):
            self._backend.delete(source)
        return None


class ExactVersion:
    """Places the manifest of one commit when Lance calls it, at exactly one version.

    ``check`` is asked at the last moment and may raise; ``refused`` is what it raised, which Lance
    does not hand on.
    ``placed`` is true if the manifest is in its place and durable; Lance takes one for committed
    that is there, even if placing it has failed half-way.
    """

    def __init__(
        self,
        placer: Placer,
        place: str,
        version: int,
        *,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._placer = placer
        self._check = check
        self.refused: Exception | None = None
        self._folder = f"{place}/_versions"
        self._place = place
        self._version = version
        self._prefix = ""
        self.placed = False
        # Lance calls from threads of its own, which know nothing of the running operation.
        self._carried = telemetry.carried(self._create)

    def namespace_id(self) -> str:
        """Name the namespace, in Lance's messages."""
        return "omnigraph"

    def create_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Place a manifest if it is for the announced version."""
        return self._carried(request)

    def _create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._prefix, _, staging = str(request["manifest_path"]).rpartition("/")
        if int(request["version"]) != self._version:
            raise self._taken()
        self._ask()
        final = manifest_name(self._version)
        size = storage_call(
            StorageCall.TABLE_PLACE,
            self._place,
            lambda: self._placer.place(self._folder, staging, final),
        )
        self.placed = True
        return self._answer(int(request["version"]), size or request.get("manifest_size"))

    def _ask(self) -> None:
        try:
            if self._check is not None:
                self._check()
        except Exception as refusal:
            self.refused = refusal
            raise

    def list_table_versions(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        """Report to Lance that a table which is to be created has no version; placing decides."""
        return {"versions": []}

    def describe_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Report to Lance, after a refusal, that another commit holds the version.

        Lance reads the named manifest, finds that of another writer and reports a conflict at once.
        If there is none after all, it reports an unknown outcome, which is then true.
        """
        return self._answer(int(request["version"]), None)

    def _answer(self, version: int, size: Any) -> dict[str, Any]:
        path = f"{self._prefix}/{manifest_name(self._version)}"
        return {"version": {"version": version, "manifest_path": path, "manifest_size": size}}

    def _taken(self) -> StorageFailure:
        text = f"version {self._version} is taken"
        return StorageFailure(
            FailureKind.CONFLICT, StorageCall.TABLE_PLACE.value, self._place, text
        )
