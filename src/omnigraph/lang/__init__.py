"""The compiler of both languages: pure, without I/O.

`compile_schema` turns `.pg` text into a catalog, `compile_queries` turns `.gq` text into plans.
"""

from __future__ import annotations

from omnigraph.lang.query.compile import QueryCompiler, compile_queries
from omnigraph.lang.schema import compile_schema

__all__ = ["QueryCompiler", "compile_queries", "compile_schema"]
