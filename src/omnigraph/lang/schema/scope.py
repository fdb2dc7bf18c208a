"""The state of the checker while it works: the declared names and the list of findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from omnigraph.lang.catalog.model import (
    CustomAnnotation,
    Embed,
)
from omnigraph.lang.literal import Literal
from omnigraph.lang.schema.ast import EdgeDecl, InterfaceDecl, NodeDecl, PropertyDecl
from omnigraph.lang.source import (
    DIAGNOSTICS_MAX,
    NOWHERE,
    Diagnostic,
    Diagnostics,
    Severity,
    Span,
    did_you_mean,
)
from omnigraph.lang.values import ValueType
from omnigraph.types import Metric


@dataclass(slots=True)
class PropertyDraft:
    """A property while it is checked; `type` stays None when it could not be resolved."""

    decl: PropertyDecl
    type: ValueType | None
    enum_name: str | None = None
    marks: dict[str, Span] = field(default_factory=dict)  # key, unique, index
    default: Literal | None = None
    default_span: Span = NOWHERE
    embed: Embed | None = None
    embed_span: Span = NOWHERE
    metric: Metric | None = None
    description: str | None = None
    annotations: tuple[CustomAnnotation, ...] = ()
    renamed_from: str | None = None
    renamed_span: Span = NOWHERE


@dataclass(slots=True)
class SchemaScope:
    """Names that every declaration of one file can use."""

    found: Diagnostics
    accepted: bool  # the schema is in force already, so one historic slip is forgiven
    partial: bool  # part of the text did not parse, so a missing name proves nothing
    nodes: dict[str, NodeDecl] = field(default_factory=dict)
    edges: dict[str, EdgeDecl] = field(default_factory=dict)
    interfaces: dict[str, InterfaceDecl] = field(default_factory=dict)
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    drafts: dict[str, dict[str, PropertyDraft]] = field(default_factory=dict)  # of the interfaces

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record an error."""
        self.found.error(code, message, span, hint)

    def warn(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record a warning."""
        self.found.add(Diagnostic(code, message, span, hint, Severity.WARNING))

    def unknown(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        word: str,
        known: Iterable[str],
        hint: str | None = None,
    ) -> None:
        """Record that a name is not declared, unless its declaration may have been lost."""
        if self.partial:
            return
        # A suggestion looks at every known name, so only findings that will be shown get one.
        if self.found.errors < DIAGNOSTICS_MAX:
            hint = did_you_mean(word, known) or hint
        self.error(code, message, span, hint)
