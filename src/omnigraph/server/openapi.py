"""The OpenAPI document, made of the table of routes."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

import msgspec

from omnigraph.server.failures import WORD_OF, ErrorOutput
from omnigraph.server.routes import ROUTES, Route

_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"{(\w+)(?::path)?}")
# The operations that a key makes happen once; the others do not look at it.
_KEYED: Final = frozenset(
    f"cluster_{name}"
    for name in (
        "mutate", "mutate_if", "change", "invoke", "invoke_if", "load", "load_ndjson", "ingest",
        "merge", "apply_schema", "start_job", "transaction", "create_branch", "delete_branch",
        "reset", "revert", "protect", "rename_branch", "create_tag", "delete_tag",
    )
)  # fmt: skip
_STATUSES: Final = (400, 401, 403, 404, 409, 410, 412, 413, 429, 500, 503)


def document(*, is_open: bool = False) -> dict[str, Any]:
    """The document; an open server asks for no token."""
    shapes = [route.input for route in ROUTES if route.input is not None]
    shapes += [route.output for route in ROUTES if route.output is not None]
    shapes.append(ErrorOutput)
    _, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, is_open)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Omnigraph API", "version": "0.10.0"},
        "paths": paths,
        "components": {"schemas": dict(sorted(components.items()))},
    }
    if not is_open:
        scheme = {"type": "http", "scheme": "bearer"}
        found["components"]["securitySchemes"] = {"bearer_token": scheme}
    return found


def encoded(found: dict[str, Any]) -> bytes:
    """The document as it is sent, and as it is checked in."""
    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


def _operation(route: Route, is_open: bool) -> dict[str, Any]:
    summary = (inspect.getdoc(route.handler) or route.name).splitlines()[0]
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": summary,
        "tags": [route.tag],
        "parameters": [*_path_parameters(route), *_terms(route), *_header_parameters(route)],
        "responses": _responses(route),
    }
    if route.input is not None or route.body == "stream":
        found["requestBody"] = _body(route)
    if route.successor is not None:
        found["deprecated"] = True
    if route.secured and not is_open:
        found["security"] = [{"bearer_token": []}]
    return found


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]


def _terms(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.terms], ref_template=_REF)
    shape = components[route.terms.__name__]
    required = shape.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _plain(schema)}
        for name, schema in shape.get("properties", {}).items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter cannot be null: it is left out instead."""
    choices = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    named: list[tuple[str, bool]] = []
    if route.name in _KEYED:
        named.append(("Idempotency-Key", False))
    if route.path.endswith("/if-graph-commit"):
        named.append(("Omnigraph-If-Graph-Commit", True))
    return [
        {"name": name, "in": "header", "required": is_needed, "schema": {"type": "string"}}
        for name, is_needed in named
    ]


def _body(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if route.input is not None:
        content["application/json"] = {"schema": _ref(route.input)}
    if route.body == "stream":
        content["application/x-ndjson"] = {"schema": {"type": "string"}}
        if route.input is not None:
            for media in (
                "application/vnd.apache.arrow.stream",
                "application/vnd.apache.parquet",
                "multipart/mixed",
            ):
                content[media] = {"schema": {"type": "string", "format": "binary"}}
    return {"required": route.body != "optional", "content": content}


def _responses(route: Route) -> dict[str, Any]:
    schema = {"type": "object"} if route.output is None else _ref(route.output)
    if route.media != "application/json":
        schema = {"type": "string"}
    ok = "202" if route.name == "cluster_start_job" else "200"
    found: dict[str, Any] = {
        ok: {"description": "done", "content": {route.media: {"schema": schema}}}
    }
    failure = {"application/json": {"schema": _ref(ErrorOutput)}}
    for status in (*_STATUSES, 405, 406, 408, 415, 416):
        text = WORD_OF.get(status, "see the fields of the body")
        found[str(status)] = {"description": text, "content": failure}
    if route.name == "cluster_blob":
        for status in (206, 304):
            found[str(status)] = {"description": "a range, or nothing new"}
    return found


def _ref(shape: Any) -> dict[str, str]:
    return {"$ref": _REF.format(name=shape.__name__)}
