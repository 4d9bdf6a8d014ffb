"""The description of all routes, as OpenAPI has it."""

from collections.abc import Iterable
from typing import Any

from edgellm.server.endpoint import APIRoute
from edgellm.server.exchange import JSON
from edgellm.server.openapi.recording import recorded

_PARAMETER = "{name:path}"
_KEY = {"key": {"type": "http", "scheme": "bearer"}}


def description(routes: Iterable[APIRoute], version: str) -> dict[str, Any]:
    """The description of routes as an object, for `edgellm` of this version."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path.replace(_PARAMETER, "{name}"), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "edgellm", "version": version, "description": "Language models on this machine."},
        "paths": paths,
        "components": {"securitySchemes": _KEY},
        "security": [{}, {"key": []}],
    }


def _operation(route: APIRoute) -> dict[str, Any]:
    found: dict[str, Any] = {"summary": route.summary, "responses": _responses(route)}
    if _PARAMETER in route.path:
        found["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if route.method == "POST":
        schema = recorded(route.read, route.bodies) if route.read else {"type": "object"}
        examples = {f"body {number}": {"value": body} for number, body in enumerate(route.bodies, 1)}
        content: dict[str, Any] = {"schema": schema, **({"examples": examples} if examples else {})}
        found["requestBody"] = {"required": True, "content": {JSON: content}}
    return found


def _responses(route: APIRoute) -> dict[str, Any]:
    error = {"description": "An error", "content": {JSON: {"schema": route.dialect.schema}}}
    if route.answer is None:
        return {"default": error}
    answers = {route.media_type: {"schema": route.answer}}
    if route.stream:
        answers[route.stream] = {"schema": {"type": "string"}}
    return {"200": {"description": "The answer", "content": answers}, "default": error}
