"""The calls of `Graph` that read blobs."""

from __future__ import annotations

from omnigraph.core.revisions import Revision
from omnigraph.exec.blobs import read_cell
from omnigraph.graph.bulk.calls import BulkCalls
from omnigraph.policy.authorization import Permission
from omnigraph.store.reading.blob_values import BlobRange


class BlobCalls(BulkCalls):
    """The part of `Graph` that reads blobs."""

    def read_blob(
        self,
        type_name: str,
        id: str,
        property_name: str,
        *,
        offset: int = 0,
        length: int | None = None,
        branch: str | None = None,
        at: Revision | None = None,
    ) -> bytes | None:
        """Bytes of one blob; None when it is null. Reads no more than is asked for.

        Example:
            ```python
            graph.mutate('query q() { insert File { path: "a", content: "base64:aGVsbG8=" } }')
            assert graph.read_blob("File", "a", "content", offset=1, length=3) == b"ell"
            ```

        Args:
            type_name: The type of the node or edge.
            id: Its id.
            property_name: Which blob of it.
            offset: The first byte.
            length: How many bytes; a range that reaches beyond the end is cut there.
            branch: Which branch to read.
            at: A commit, a tag, a time or `main~3` to read instead; see `snapshot`.

        Raises:
            NotFound: There is no such entity.
            InvalidInput: The type has no such blob.
        """
        cell = self._cell(type_name, id, property_name, offset, length, branch, at)
        return None if cell is None else cell.data

    def _cell(
        self,
        type_name: str,
        id: str,
        property_name: str,
        offset: int,
        length: int | None,
        branch: str | None,
        at: Revision | None,
    ) -> BlobRange | None:
        pinned = self._pinned(branch, at)
        catalog = self._plans(pinned).catalog
        kind = "node" if type_name in catalog.node_by_name else "edge"
        self._authorizer.ask(Permission.READ, pinned.branch, types=[f"{kind}:{type_name}"])
        return read_cell(
            self._repo,
            pinned,
            catalog,
            type_name,
            id,
            property_name,
            offset=offset,
            length=length,
        )

    def blob_size(
        self,
        type_name: str,
        id: str,
        property_name: str,
        *,
        branch: str | None = None,
        at: Revision | None = None,
    ) -> int | None:
        """The number of bytes of one blob; None when it is null. See `read_blob`."""
        cell = self._cell(type_name, id, property_name, 0, 0, branch, at)
        return None if cell is None else cell.size
