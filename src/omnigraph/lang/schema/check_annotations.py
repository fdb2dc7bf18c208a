"""Annotations of properties and types: the known ones are checked, the others are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal as OneOf

from omnigraph.lang.catalog.model import (
    CustomAnnotation,
    Embed,
)
from omnigraph.lang.catalog.rules import PROPERTY_NAME, TYPE_NAME, is_text
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.schema.ast import Annotation, PropertyDecl
from omnigraph.lang.schema.check_default import resolve_default
from omnigraph.lang.schema.check_types import resolve_type
from omnigraph.lang.schema.scope import PropertyDraft, SchemaScope
from omnigraph.lang.source import NOWHERE, Name, Span, did_you_mean
from omnigraph.lang.values import Base
from omnigraph.types import Metric

OwnerKind = OneOf["node", "edge", "interface"]

_TYPE_ONLY = frozenset({"instruction"})
_PROPERTY_ONLY = frozenset({"key", "unique", "index", "embed", "default", "metric"})
_BODY_ONLY = frozenset({"range", "check"})
_KNOWN = frozenset(
    {"card", "description", "rename_from", *_TYPE_ONLY, *_PROPERTY_ONLY, *_BODY_ONLY}
)
_METRICS = {str(metric): metric for metric in Metric}


@dataclass(frozen=True, slots=True)
class _AnnotationPlace:
    """The property that is being annotated."""

    draft: PropertyDraft
    label: str
    owner_kind: OwnerKind
    scope: SchemaScope


def resolve_property(
    decl: PropertyDecl, owner: str, owner_kind: OwnerKind, scope: SchemaScope
) -> PropertyDraft:
    """Check a property by itself; what needs its neighbours comes later."""
    of_type, enum_name = resolve_type(decl, scope)
    draft = PropertyDraft(decl, of_type, enum_name)
    if of_type is not None and of_type.base is Base.VECTOR:
        draft.metric = Metric.COSINE
    if not decl.annotations:
        return draft
    place = _AnnotationPlace(draft, f"{owner}.{decl.name.text}", owner_kind, scope)
    custom: list[Annotation] = []
    seen: set[str] = set()
    for annotation in decl.annotations:
        handler = _HANDLERS.get(annotation.name)
        if handler is None:
            custom.append(annotation)
        elif annotation.name in seen:
            _report_twice(annotation, f"`{place.label}`", scope)
        else:
            seen.add(annotation.name)
            handler(annotation, place)
    if custom:
        draft.annotations = keep_custom(custom, scope)
    return draft


# -- one handler per annotation of a property ------------------------------------------------------


def _mark(annotation: Annotation, place: _AnnotationPlace) -> None:
    if annotation.name == "key" and place.owner_kind == "edge":
        message = f"`{place.label}` is a property of an edge, it cannot be its key"
        hint = f"write `@key(src, dst, {place.draft.decl.name.text})` in the body"
        place.scope.error("S307", message, annotation.span, hint)
        return
    place.draft.marks[annotation.name] = annotation.span


def _describe(annotation: Annotation, place: _AnnotationPlace) -> None:
    place.draft.description = _one_text(annotation, place.scope)


def _instruct(annotation: Annotation, place: _AnnotationPlace) -> None:
    message = "`@instruction` is for node and edge types"
    hint = "use `@description` for a property"
    place.scope.error("S303", message, annotation.span, hint)


def _rename(annotation: Annotation, place: _AnnotationPlace) -> None:
    name = place.draft.decl.name.text
    place.draft.renamed_from = _old_name(annotation, name, PROPERTY_NAME, place.scope)
    place.draft.renamed_span = annotation.span


def _body_form(annotation: Annotation, place: _AnnotationPlace) -> None:
    name = place.draft.decl.name.text
    form = f"@range({name}, 0..100)" if annotation.name == "range" else f'@check({name}, "^x")'
    message = f"`@{annotation.name}` is written in the body"
    place.scope.error("S306", message, annotation.span, f"on a line of its own: `{form}`")


def _default(annotation: Annotation, place: _AnnotationPlace) -> None:
    draft = place.draft
    draft.default = resolve_default(annotation, draft.type, place.label, place.scope)
    draft.default_span = annotation.span


def _metric(annotation: Annotation, place: _AnnotationPlace) -> None:
    draft = place.draft
    if draft.type is not None and draft.type.base is not Base.VECTOR:
        message = f"`{place.label}` has the type {draft.type}, `@metric` is for a Vector"
        place.scope.error("S510", message, annotation.span)
        return
    word = _one_word(annotation)
    metric = _METRICS.get(word or "")
    if metric is not None:
        draft.metric = metric
        return
    message = f"`@metric` takes one of {', '.join(_METRICS)}"
    hint = did_you_mean(word[:80], _METRICS) if word else None
    place.scope.error("S511", message, annotation.span, hint)


def _embed(annotation: Annotation, place: _AnnotationPlace) -> None:
    draft, scope = place.draft, place.scope
    if place.owner_kind == "edge":
        scope.error("S507", "a property of an edge cannot be embedded", annotation.span)
        return
    if draft.type is not None and (draft.type.base is not Base.VECTOR or draft.type.is_list):
        message = f"`{place.label}` has the type {draft.type}, `@embed` is for a Vector"
        scope.error("S501", message, annotation.span)
        return
    kwargs = dict(annotation.kwargs)
    model = kwargs.pop("model", None)
    for key, value in kwargs.items():
        message = f"`@embed` has no argument `{key}`"
        scope.error(
            "S505", message, value.span, did_you_mean(key, ["model"]) or "there is only `model`"
        )
    if model is not None and not _is_text(model):
        scope.error("S506", "`model` is the name of a model, in double quotes", model.span)
        return
    source = _one_word(annotation, allow_kwargs=True)
    if not source:
        message = "`@embed` names the one property that is embedded"
        scope.error("S502", message, annotation.span, "write for example `@embed(body)`")
        return
    chosen = str(model.value) if model is not None else None
    draft.embed = Embed(source=source, model=chosen)
    draft.embed_span = annotation.span


_HANDLERS: dict[str, Callable[[Annotation, _AnnotationPlace], None]] = {
    "key": _mark,
    "unique": _mark,
    "index": _mark,
    "description": _describe,
    "instruction": _instruct,
    "rename_from": _rename,
    "range": _body_form,
    "check": _body_form,
    "default": _default,
    "metric": _metric,
    "embed": _embed,
}


def inherit_notes(own: PropertyDraft, offered: PropertyDraft) -> PropertyDraft:
    """A property that is declared again: it keeps what it says and gets the rest.

    Constraints add up, so a node never promises less than its interface. Of everything that can
    be there once, the own statement wins.
    """
    stated = {annotation.name for annotation in own.decl.annotations}
    merged = replace(own, marks={**offered.marks, **own.marks})
    if "default" not in stated and own.default is None:
        merged.default, merged.default_span = offered.default, offered.default_span
    if "embed" not in stated and own.embed is None:
        merged.embed, merged.embed_span = offered.embed, offered.embed_span
    if "rename_from" not in stated and own.renamed_from is None:
        merged.renamed_from, merged.renamed_span = offered.renamed_from, offered.renamed_span
    if "description" not in stated and own.description is None:
        merged.description = offered.description
    if "metric" not in stated and own.type == offered.type:
        merged.metric = offered.metric
    own_names = {note.name for note in own.annotations}
    added = [note for note in offered.annotations if note.name not in own_names]
    if added:
        merged.annotations = tuple(sorted((*own.annotations, *added), key=lambda note: note.rank))
    return merged


def check_embed_sources(drafts: dict[str, PropertyDraft], owner: str, scope: SchemaScope) -> None:
    """Report embedded texts that are no String of the same type."""
    for draft in drafts.values():
        if draft.embed is None:
            continue
        source = drafts.get(draft.embed.source)
        if source is None:
            word = draft.embed.source
            message = f"`{owner}` has no property `{word[:80]}` to embed"
            scope.unknown("S503", message, draft.embed_span, word=word[:80], known=drafts)
        elif source.type is not None and not is_text(source.type):
            label = f"`{owner}.{draft.embed.source}`"
            message = f"{label} has the type {source.type}, only a String is embedded"
            scope.error("S504", message, draft.embed_span)


# -- types -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class TypeNotes:
    """The checked annotations of a node or edge type."""

    description: str | None = None
    instruction: str | None = None
    renamed_from: str | None = None
    renamed_span: Span = NOWHERE
    annotations: tuple[CustomAnnotation, ...] = ()


def resolve_type_notes(
    annotations: tuple[Annotation, ...], owner: str, scope: SchemaScope
) -> TypeNotes:
    """Check the annotations of the type called `owner`."""
    notes = TypeNotes()
    custom: list[Annotation] = []
    seen: set[str] = set()
    for annotation in annotations:
        name = annotation.name
        if name in _PROPERTY_ONLY or name in _BODY_ONLY:
            _report_misplaced(annotation, scope)
        elif name not in ("description", "instruction", "rename_from"):
            custom.append(annotation)
        elif name in seen:
            _report_twice(annotation, f"`{owner}`", scope)
        elif name == "description":
            notes.description = _one_text(annotation, scope)
        elif name == "instruction":
            notes.instruction = _one_text(annotation, scope)
        else:
            notes.renamed_from = _old_name(annotation, owner, TYPE_NAME, scope)
            notes.renamed_span = annotation.span
        seen.add(name)
    if custom:
        notes.annotations = keep_custom(custom, scope)
    return notes


def check_old_names(claims: Iterable[tuple[str, str | None, Span]], scope: SchemaScope) -> None:
    """Two declarations cannot both continue the same old one."""
    taken: dict[str, str] = {}
    for name, old, span in claims:
        if old is None:
            continue
        other = taken.setdefault(old, name)
        if other != name:
            message = f"`{other}` is renamed from `{old}` already"
            scope.error("S308", message, span)


def _report_misplaced(annotation: Annotation, scope: SchemaScope) -> None:
    name = annotation.name
    columns = ", ".join(arg.text for arg in annotation.args if isinstance(arg, Name))
    if name in ("key", "unique", "index") and columns:
        hint = f"write `@{name}({columns})` in the body"
    elif name in _BODY_ONLY:
        hint = "write it in the body"
    else:
        hint = "write it behind a property"
    scope.error("S305", f"`@{name}` does not belong to a whole type", annotation.span, hint)


# -- shared ----------------------------------------------------------------------------------------


def keep_custom(annotations: list[Annotation], scope: SchemaScope) -> tuple[CustomAnnotation, ...]:
    """Annotations without a meaning here, in an order of their own."""
    kept: list[CustomAnnotation] = []
    for item in annotations:
        near = _near_known(item.name)
        if near is not None:
            message = f"`@{item.name}` has no meaning here and is kept as it is"
            scope.warn("S901", message, item.span, near)
        args = tuple(arg.text if isinstance(arg, Name) else plain(arg) for arg in item.args)
        kwargs = tuple(sorted((key, plain(value)) for key, value in item.kwargs))
        kept.append(CustomAnnotation(name=item.name, args=args, kwargs=kwargs))
    return tuple(sorted(kept, key=lambda custom: custom.rank))


@lru_cache(maxsize=1024)
def _near_known(name: str) -> str | None:
    # A schema repeats its own annotations thousands of times.
    return did_you_mean(name, _KNOWN)


def plain(literal: Literal) -> Literal:
    """A literal without its position: a catalog must not remember where text stood."""
    value = literal.value
    if isinstance(value, float):
        value += 0.0  # there is one zero: equal catalogs must have equal texts
    return Literal(literal.kind, value, tuple(plain(item) for item in literal.items))


def _report_twice(annotation: Annotation, owner: str, scope: SchemaScope) -> None:
    message = f"{owner} has `@{annotation.name}` already"
    scope.error("S301", message, annotation.span)


def _is_text(value: Literal) -> bool:
    return value.kind is LiteralKind.STRING and bool(str(value.value).strip())


def _one_text(annotation: Annotation, scope: SchemaScope) -> str | None:
    value = annotation.args[0] if len(annotation.args) == 1 and not annotation.kwargs else None
    if isinstance(value, Literal) and _is_text(value):
        return str(value.value)
    message = f"`@{annotation.name}` takes exactly one text, and not an empty one"
    scope.error("S302", message, annotation.span, f'write `@{annotation.name}("…")`')
    return None


def _one_word(annotation: Annotation, *, allow_kwargs: bool = False) -> str | None:
    """The single argument as a bare word or a text; None when there is anything else."""
    if len(annotation.args) != 1 or (annotation.kwargs and not allow_kwargs):
        return None
    value = annotation.args[0]
    if isinstance(value, Name):
        return value.text
    return str(value.value).strip() if _is_text(value) else None


def _old_name(
    annotation: Annotation, name: str, form: re.Pattern[str], scope: SchemaScope
) -> str | None:
    word = _one_word(annotation)
    if not word:
        message = "`@rename_from` takes exactly one old name"
        scope.error("S304", message, annotation.span, 'write `@rename_from("old_name")`')
        return None
    if not form.fullmatch(word):
        what = "a type" if form is TYPE_NAME else "a property"
        message = f"{word[:80]!r} cannot have been the name of {what}"
        scope.error("S304", message, annotation.span)
        return None
    if word == name:
        message = f"`{name}` cannot be renamed from itself"
        scope.error("S309", message, annotation.span, "remove the `@rename_from`")
        return None
    return word
