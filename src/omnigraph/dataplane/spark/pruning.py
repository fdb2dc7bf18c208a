"""Column pruning for `spark.read.format("omnigraph")`: a rule in the optimizer of a session.

Spark prunes columns of data sources that are written for the JVM, and of those in Python it reads
all: a `count()` would read whole tables. So a session is given one rule of ours. Where a plan
uses some columns of a scan, the rule has the same data source planned again for these alone.

The rule is Java, since optimizer rules live in the JVM. The compiler with which Spark compiles its
generated code compiles it, once per session, and only the driver runs it. It uses classes of Spark
that may change: if anything is not as it expects, plans stay as they are and all columns are read.
If the rule cannot be given to a session at all, the log says why.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any, Final

from omnigraph.dataplane.spark.config import is_connect

logger = logging.getLogger("omnigraph.spark")

_NAME: Final = "omnigraph.spark.ColumnPruning"

# The compiler has no lambdas and looks at no type parameters.
_SOURCE: Final = """
package omnigraph.spark;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

public class ColumnPruning extends Rule {
    private static final String FORMAT = "omnigraph";

    // What was planned, by data source and columns: a frame is planned once, not for every action.
    private final Map planned = new WeakHashMap();

    public TreeNode apply(TreeNode plan) {
        if (plan instanceof Project) {
            AttributeSet used = ((Project) plan).references();
            LogicalPlan below = ((Project) plan).child();
            while (below instanceof Filter) {
                used = used.$plus$plus(((Filter) below).references());
                below = ((Filter) below).child();
            }
            if (below instanceof DataSourceV2ScanRelation) {
                DataSourceV2ScanRelation whole = (DataSourceV2ScanRelation) below;
                DataSourceV2ScanRelation narrow = narrowed(whole, used);
                return narrow == whole ? plan : onto((LogicalPlan) plan, narrow);
            }
        }
        return plan.mapChildren(new AbstractFunction1() {
            public Object apply(Object child) {
                return ColumnPruning.this.apply((TreeNode) child);
            }
        });
    }

    // The plan with another leaf; it has one.
    private static LogicalPlan onto(LogicalPlan plan, final LogicalPlan leaf) {
        if (plan instanceof DataSourceV2ScanRelation) {
            return leaf;
        }
        return (LogicalPlan) plan.mapChildren(new AbstractFunction1() {
            public Object apply(Object child) {
                return onto((LogicalPlan) child, leaf);
            }
        });
    }

    private DataSourceV2ScanRelation narrowed(
            DataSourceV2ScanRelation whole, final AttributeSet used) {
        if (!(whole.scan() instanceof PythonScan)
                || !FORMAT.equals(whole.relation().table().name())) {
            return whole;
        }
        Seq output = (Seq) whole.output().filter(new AbstractFunction1() {
            public Object apply(Object column) {
                return Boolean.valueOf(used.contains((AttributeReference) column));
            }
        });
        if (output.size() == whole.output().size()) {
            return whole;
        }
        try {
            PythonScan scan = narrowed((PythonScan) whole.scan(), output);
            return scan == null ? whole : whole.copy(
                whole.relation(), scan, output, whole.keyGroupedPartitioning(),
                whole.ordering(), whole.pushedFilters(), whole.mergeableScan());
        } catch (Exception problem) {
            // Reading the whole scan reports what is wrong.
            return whole;
        } catch (LinkageError other) {
            return whole;
        }
    }

    private synchronized PythonScan narrowed(PythonScan whole, Seq output) throws Exception {
        CaseInsensitiveStringMap options = (CaseInsensitiveStringMap) field(whole, "options");
        if (!options.containsKey("path") || options.containsKey("changesFrom")) {
            // Tables of the catalog have their options in the schema. Changes are not pinned.
            return null;
        }
        PythonDataSourceV2 source = (PythonDataSourceV2) field(whole, "ds");
        StructType all = (StructType) field(whole, "outputSchema");
        StructType some = new StructType();
        for (int i = 0; i < output.size(); i++) {
            some = some.add(all.apply(((AttributeReference) output.apply(i)).name()));
        }
        Map scans = (Map) planned.get(source);
        if (scans == null) {
            scans = new HashMap();
            planned.put(source, scans);
        }
        PythonScan scan = (PythonScan) scans.get(some);
        if (scan == null) {
            PythonDataSourceV2 other = new PythonDataSourceV2();
            other.setShortName(FORMAT);
            other.setReadInfo(source.source().createReadInfoInPython(
                source.getOrCreateDataSourceInPython(FORMAT, options, Option.apply(all)),
                some, false));
            scan = new PythonScan(
                other, FORMAT, some, options, new org.apache.spark.sql.sources.Filter[0]);
            scans.put(some, scan);
        }
        return scan;
    }

    private static Object field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
"""

_lock: Final = threading.Lock()
_given: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def prune_columns(session: Any) -> None:
    """Give a session the rule, once. Sessions of Connect have their optimizer out of reach."""
    if is_connect(session):
        return
    with _lock:
        if session in _given:
            return
        _given.add(session)
        try:
            _add_rule(session)
        except Exception as problem:  # noqa: BLE001 - a JVM throws anything
            # A session without the rule gives the same rows, only slower.
            reason = str(problem).strip() or type(problem).__name__
            logger.warning(
                "frames of the format omnigraph read all columns in this session: %s",
                reason.splitlines()[0],
            )


def _add_rule(session: Any) -> None:
    jvm, gateway = session._jvm, session._sc._gateway
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE)
    made = compiler.getClassLoader().loadClass(_NAME)
    none = gateway.new_array(jvm.Class, 0), gateway.new_array(jvm.Object, 0)
    rules = jvm.java.util.ArrayList()
    rules.add(made.getDeclaredConstructor(none[0]).newInstance(none[1]))
    methods = session._jsparkSession.experimental()
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    # What the user has given the session stays.
    known = methods.extraOptimizations()
    for number in range(known.size()):
        rules.add(known.apply(number))
    getattr(methods, "extraOptimizations_$eq")(to_seq(rules))
