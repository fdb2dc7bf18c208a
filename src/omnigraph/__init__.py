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
    "CleanedTable",
    "CleanupResult",
    "Commit",
    "CopyResult",
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
    "RemoteGraph",
    "RepairResult",
    "RepairedTable",
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
    "VerifyFinding",
    "VerifyResult",
    "__version__",
    "connect",
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
    "AccessRequest": "omnigraph.policy.authorization",
    "AlgorithmResult": "omnigraph.graph.algorithms.results",
    "Baseline": "omnigraph.graph.versioning.changes",
    "BlameLine": "omnigraph.results.changes",
    "Branch": "omnigraph.results.commits",
    "BranchHandle": "omnigraph.graph.branch_handle",
    "CancelToken": "omnigraph.runtime.cancellation",
    "Change": "omnigraph.results.changes",
    "ChangeCounts": "omnigraph.dataplane.counts",
    "ChangeEvent": "omnigraph.results.changes",
    "ChangePage": "omnigraph.results.changes",
    "CleanedTable": "omnigraph.results.maintenance",
    "CleanupResult": "omnigraph.results.maintenance",
    "Commit": "omnigraph.results.commits",
    "CopyResult": "omnigraph.results.writes",
    "Counts": "omnigraph.dataplane.counts",
    "Diff": "omnigraph.graph.versioning.diff",
    "EmbedResult": "omnigraph.results.writes",
    "Embedder": "omnigraph.embed.provider",
    "VerifyFinding": "omnigraph.results.maintenance",
    "RepairResult": "omnigraph.results.maintenance",
    "RepairedTable": "omnigraph.results.maintenance",
    "VerifyResult": "omnigraph.results.maintenance",
    "ExportResult": "omnigraph.results.writes",
    "Graph": "omnigraph.graph.facade",
    "IndexResult": "omnigraph.results.writes",
    "LoadResult": "omnigraph.results.writes",
    "MergeConflict": "omnigraph.exec.merge.conflicts",
    "MergeResult": "omnigraph.results.merging",
    "MutationResult": "omnigraph.results.writes",
    "OptimizeResult": "omnigraph.results.writes",
    "Permission": "omnigraph.policy.authorization",
    "Policy": "omnigraph.policy.authorization",
    "Profile": "omnigraph.exec.read.profile",
    "Progress": "omnigraph.dataplane.progress",
    "RecoveredWrite": "omnigraph.results.recovery",
    "RecoveryResult": "omnigraph.results.recovery",
    "RelocateResult": "omnigraph.graph.maintenance.relocating",
    "RemoteGraph": "omnigraph.client.remote_graph",
    "ResetResult": "omnigraph.results.merging",
    "ResultWarning": "omnigraph.results.commits",
    "Rows": "omnigraph.exec.read.rows",
    "SchemaChange": "omnigraph.results.schema_change",
    "SetAsideFile": "omnigraph.results.recovery",
    "Settings": "omnigraph.runtime.settings",
    "Snapshot": "omnigraph.graph.snapshot",
    "StageFigures": "omnigraph.dataplane.progress",
    "Tag": "omnigraph.results.commits",
    "Transaction": "omnigraph.graph.versioning.transaction",
    "TransactionResult": "omnigraph.results.transactions",
    "connect": "omnigraph.client.connecting",
    "init": "omnigraph.graph.opening",
    "open": "omnigraph.entry",
    "register_spark": "omnigraph.dataplane.spark.registration",
    "relocate": "omnigraph.graph.maintenance.relocating",
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
