"""Values that settle a conflict, in the form in which columns store them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.errors import InvalidInput
from omnigraph.exec.merge.conflicts import MergeConflict, Resolving
from omnigraph.exec.mutate.values import Stored, stored
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.ir.expr import Column
from omnigraph.lang.ir.ops import ParamSpec
from omnigraph.lang.query.params import bind

Given = Mapping[str, Stored]


def given_values(
    entity: EntityType, conflict: MergeConflict, values: Mapping[str, Any], resolve: Resolving
) -> dict[str, Stored]:
    """Values by property.

    A conflict about some properties gets values for them, one about the whole entity for any
    properties; the others are those of the side that has the entity.

    Raises:
        InvalidInput: They are not values of properties that the conflict is about.
    """
    known = {item.name: item for item in entity.properties if item.name not in (entity.key or ())}
    wanted = conflict.properties or tuple(known)
    if not values:
        raise resolve.refused(conflict, f"a value is given for at least one of {_names(wanted)}")
    for name in values:
        if name not in wanted or name not in known:
            text = f"{name!r} is no property that it is about, but {_names(wanted)}"
            raise resolve.refused(conflict, text)
    if conflict.properties and set(values) != set(conflict.properties):
        missing = _names([name for name in conflict.properties if name not in values])
        raise resolve.refused(conflict, f"no value is given for {missing}")
    for item in entity.properties:
        if item.embed is not None and {item.name, item.embed.source} & values.keys():
            text = (
                f"{item.name!r} is computed from {item.embed.source!r}; choose a side, and set "
                "the text in a mutation afterwards"
            )
            raise resolve.refused(conflict, text)
    specs = [ParamSpec(name, known[name].type) for name in values]
    try:
        bound = bind(specs, values)
        return {name: stored(Column(name, known[name].type), bound[name]) for name in values}
    except InvalidInput as error:
        raise resolve.refused(conflict, str(error).replace("parameter `$", "`")) from error


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
