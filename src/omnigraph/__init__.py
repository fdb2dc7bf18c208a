"""OmniGraph: a typed property-graph database with a schema and a query language of its own.

    import omnigraph as og

    graph = og.init("people.omni", schema="people.pg")
    graph.mutate('query add() { insert Person { name: "Ada" } }')
    graph.query("query all() { match { $p: Person } return { $p.name as name } }").to_pylist()

This module is the public surface. Names listed in ``__all__`` are API; every other module of the
package is internal, however its name is spelled.
"""

from omnigraph import errors

__all__ = [
    "AccessRequest",
    "AlgorithmResult",
    "Baseline",
    "BlameLine",
    "Branch",
    "BranchHandle",
    "CancelToken",
    "Change",
    "ChangeCounts",
    "ChangeEvent",
    "ChangePage",
    "Commit",
    "Counts",
    "Diff",
    "EmbedResult",
    "Embedder",
    "ExportResult",
    "Graph",
    "IndexResult",
    "LoadResult",
    "MergeConflict",
    "MergeResult",
    "MutationResult",
    "OptimizeResult",
    "Permission",
    "Policy",
    "Profile",
    "Progress",
    "RecoveredWrite",
    "RecoveryResult",
    "RelocateResult",
    "ResetResult",
    "ResultWarning",
    "Rows",
    "SchemaChange",
    "SetAsideFile",
    "Settings",
    "Snapshot",
    "StageFigures",
    "Tag",
    "Transaction",
    "TransactionResult",
    "__version__",
    "errors",
    "init",
    "open",
    "register_spark",
    "relocate",
    "spark_error",
]

__version__ = "0.1.0"

# Loaded on first use: a one-shot command that only compiles must not wait for the storage engine.
_HOMES = {
    "AccessRequest": "omnigraph.policy.door",
    "AlgorithmResult": "omnigraph.graph.algorithm_results",
    "Baseline": "omnigraph.graph.changes",
    "BlameLine": "omnigraph.graph.commits",
    "Branch": "omnigraph.graph.values",
    "BranchHandle": "omnigraph.graph.branch_handle",
    "CancelToken": "omnigraph.runtime.cancellation",
    "Change": "omnigraph.graph.diff",
    "ChangeCounts": "omnigraph.dataplane.changes.table_changes",
    "ChangeEvent": "omnigraph.graph.changes",
    "ChangePage": "omnigraph.graph.changes",
    "Commit": "omnigraph.graph.values",
    "Counts": "omnigraph.dataplane.load.request",
    "Diff": "omnigraph.graph.diff",
    "EmbedResult": "omnigraph.graph.values",
    "Embedder": "omnigraph.embed.provider",
    "ExportResult": "omnigraph.graph.values",
    "Graph": "omnigraph.graph.facade",
    "IndexResult": "omnigraph.graph.values",
    "LoadResult": "omnigraph.graph.values",
    "MergeConflict": "omnigraph.exec.merge.conflicts",
    "MergeResult": "omnigraph.graph.merging",
    "MutationResult": "omnigraph.graph.values",
    "OptimizeResult": "omnigraph.graph.values",
    "Permission": "omnigraph.policy.door",
    "Policy": "omnigraph.policy.door",
    "Profile": "omnigraph.exec.read.profile",
    "Progress": "omnigraph.dataplane.progress",
    "RecoveredWrite": "omnigraph.graph.recovering",
    "RecoveryResult": "omnigraph.graph.recovering",
    "RelocateResult": "omnigraph.graph.relocating",
    "ResetResult": "omnigraph.graph.merging",
    "ResultWarning": "omnigraph.graph.values",
    "Rows": "omnigraph.exec.read.rows",
    "SchemaChange": "omnigraph.graph.schema",
    "SetAsideFile": "omnigraph.graph.recovering",
    "Settings": "omnigraph.runtime.settings",
    "Snapshot": "omnigraph.graph.snapshot",
    "StageFigures": "omnigraph.dataplane.progress",
    "Tag": "omnigraph.graph.tags",
    "Transaction": "omnigraph.graph.transaction",
    "TransactionResult": "omnigraph.graph.transaction",
    "init": "omnigraph.graph.opening",
    "open": "omnigraph.graph.opening",
    "register_spark": "omnigraph.dataplane.spark.registration",
    "relocate": "omnigraph.graph.relocating",
    "spark_error": "omnigraph.dataplane.spark.carried_errors",
}


def __getattr__(name: str) -> object:
    """Find a public name where it lives, once."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    module = __import__(home, fromlist=[name])
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
