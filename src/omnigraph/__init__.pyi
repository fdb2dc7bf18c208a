"""The public surface, for type checkers; the module itself loads these names on first use."""

from omnigraph import errors as errors
from omnigraph.client.connecting import connect as connect
from omnigraph.client.remote_graph import RemoteGraph as RemoteGraph
from omnigraph.dataplane.counts import ChangeCounts as ChangeCounts
from omnigraph.dataplane.counts import Counts as Counts
from omnigraph.dataplane.progress import Progress as Progress
from omnigraph.dataplane.progress import StageFigures as StageFigures
from omnigraph.dataplane.spark.carried_errors import spark_error as spark_error
from omnigraph.dataplane.spark.registration import register_spark as register_spark
from omnigraph.embed.provider import Embedder as Embedder
from omnigraph.entry import open as open
from omnigraph.exec.merge.conflicts import MergeConflict as MergeConflict
from omnigraph.exec.read.profile import Profile as Profile
from omnigraph.exec.read.rows import Rows as Rows
from omnigraph.graph.algorithms.results import AlgorithmResult as AlgorithmResult
from omnigraph.graph.branch_handle import BranchHandle as BranchHandle
from omnigraph.graph.facade import Graph as Graph
from omnigraph.graph.maintenance.relocating import RelocateResult as RelocateResult
from omnigraph.graph.maintenance.relocating import relocate as relocate
from omnigraph.graph.opening import init as init
from omnigraph.graph.snapshot import Snapshot as Snapshot
from omnigraph.graph.versioning.changes import Baseline as Baseline
from omnigraph.graph.versioning.diff import Diff as Diff
from omnigraph.graph.versioning.transaction import Transaction as Transaction
from omnigraph.policy.authorization import AccessRequest as AccessRequest
from omnigraph.policy.authorization import Permission as Permission
from omnigraph.policy.authorization import Policy as Policy
from omnigraph.results.changes import BlameLine as BlameLine
from omnigraph.results.changes import Change as Change
from omnigraph.results.changes import ChangeEvent as ChangeEvent
from omnigraph.results.changes import ChangePage as ChangePage
from omnigraph.results.commits import Branch as Branch
from omnigraph.results.commits import Commit as Commit
from omnigraph.results.commits import ResultWarning as ResultWarning
from omnigraph.results.commits import Tag as Tag
from omnigraph.results.maintenance import CleanedTable as CleanedTable
from omnigraph.results.maintenance import CleanupResult as CleanupResult
from omnigraph.results.maintenance import RepairedTable as RepairedTable
from omnigraph.results.maintenance import RepairResult as RepairResult
from omnigraph.results.maintenance import VerifyFinding as VerifyFinding
from omnigraph.results.maintenance import VerifyResult as VerifyResult
from omnigraph.results.merging import MergeResult as MergeResult
from omnigraph.results.merging import ResetResult as ResetResult
from omnigraph.results.recovery import RecoveredWrite as RecoveredWrite
from omnigraph.results.recovery import RecoveryResult as RecoveryResult
from omnigraph.results.recovery import SetAsideFile as SetAsideFile
from omnigraph.results.schema_change import SchemaChange as SchemaChange
from omnigraph.results.transactions import TransactionResult as TransactionResult
from omnigraph.results.writes import CopyResult as CopyResult
from omnigraph.results.writes import EmbedResult as EmbedResult
from omnigraph.results.writes import ExportResult as ExportResult
from omnigraph.results.writes import IndexResult as IndexResult
from omnigraph.results.writes import LoadResult as LoadResult
from omnigraph.results.writes import MutationResult as MutationResult
from omnigraph.results.writes import OptimizeResult as OptimizeResult
from omnigraph.runtime.cancellation import CancelToken as CancelToken
from omnigraph.runtime.settings import Settings as Settings

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

__version__: str
