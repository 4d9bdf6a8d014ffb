"""The description of the API: what the routes read, and no answer that is not described."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from edgellm.server.openapi.description import description
from edgellm.server.routes import ROUTES
from support.chat_model import write_chat_model
from support.served import BODIES, TIMEOUT_S, Served, served

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.checks")

DESCRIBED = description(ROUTES, "1")
POSTS = [route for route in ROUTES if route.read]
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
CHECKS += ("negative_data_rejection", "unsupported_method")
LIMITED = settings(
    deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A model whose context ends all replies soon."""
    path: Path = write_chat_model(tmp_path_factory.mktemp("served") / "m.gguf", 64)
    with served(path) as found:
        yield found


def schema_of(path: str) -> dict[str, Any]:
    found: dict[str, Any] = DESCRIBED["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return found


def test_the_server_answers_with_its_description(server: Served) -> None:
    found = httpx.get(f"{server.url}/openapi.json").json()
    assert {**found, "info": DESCRIBED["info"]} == DESCRIBED
    assert {(method.upper(), path) for path, each in found["paths"].items() for method in each} == {
        (route.method, route.path.replace("{name:path}", "{name}")) for route in ROUTES
    }


@pytest.mark.parametrize("route", POSTS, ids=lambda route: route.path)
def test_examples_conform_and_are_accepted(route: Any, server: Served) -> None:
    schema = schema_of(route.path)
    jsonschema.Draft202012Validator.check_schema(schema)
    for body in route.bodies:
        jsonschema.validate(body, schema)
        found = httpx.post(server.url + route.path, json=body, timeout=TIMEOUT_S)
        # The model has no tools, and a short context.
        assert found.status_code == 200 or "tools" in found.text or "context" in found.text or "think" in found.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "nobody"}]}),
        ("/v1/chat/completions", {"messages": [], "n": 0}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": 1}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x", "other": 1}]}),
        ("/v1/chat/completions", {"stream_options": {"other": True}}),
        ("/v1/completions", {"prompt": 1}),
        ("/v1/completions", {"prompt": "x", "seed": "one"}),
        ("/v1/responses", {"input": "x", "other": 1}),
        ("/v1/messages", {"messages": []}),
        ("/api/chat", {"messages": [], "model": 1}),
        ("/api/generate", {}),
        ("/api/show", {"model": ["m"]}),
    ],
)
def test_what_is_not_described_is_refused(path: str, body: dict[str, Any], server: Served) -> None:
    assert not jsonschema.Draft202012Validator(schema_of(path)).is_valid(body)
    assert httpx.post(server.url + path, json=body, timeout=TIMEOUT_S).status_code == 400


def test_fields_have_the_checks_and_the_help_of_the_code() -> None:
    fields = schema_of("/v1/chat/completions")["properties"]
    assert fields["n"] == {"type": ["integer", "null"], "minimum": 1, "maximum": 128}
    assert fields["temperature"]["type"] == ["null", "number"] and "Sampling" in fields["temperature"]["description"]
    assert fields["messages"]["items"]["required"] == ["role"]
    assert fields["messages"]["items"]["properties"]["content"]["type"] == ["string", "array", "null"]


def check_route(server: Served, route: Any, data: Any) -> None:
    """Send a request of schemathesis, and check the answer with it."""
    operation = API[route.path.replace("{name:path}", "{name}")][route.method]
    modes = list(schemathesis.GenerationMode) if route.method == "POST" else [schemathesis.GenerationMode.POSITIVE]
    case = data.draw(operation.as_strategy(generation_mode=data.draw(st.sampled_from(modes))))
    found = case.call(base_url=server.url, timeout=TIMEOUT_S)
    case.validate_response(found, checks=[getattr(checks, name) for name in CHECKS])
    if found.status_code >= 400:
        error = found.json()["error"]
        message = error if isinstance(error, str) else error["message"]
        assert message and "\n" not in message


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def check_fields(server: Served, path: str, data: Any) -> None:
    """Send the shortest body with some fields of any value."""
    fields = st.dictionaries(st.sampled_from(sorted(schema_of(path)["properties"])), JSON, min_size=1, max_size=3)
    found = httpx.post(server.url + path, json={**BODIES[path], **data.draw(fields)}, timeout=TIMEOUT_S)
    assert found.status_code in (200, 400, 404), found.text
    if found.status_code != 200:
        error = found.json()["error"]
        assert "\n" not in (error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("path", BODIES)
@settings(LIMITED, max_examples=20)
@given(data=st.data())
def test_no_field_of_any_value_fails_inside(server: Served, path: str, data: Any) -> None:
    check_fields(server, path, data)


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", BODIES)
@settings(LIMITED, max_examples=2000)
@given(data=st.data())
def test_no_field_of_many_values_fails_inside(server: Served, path: str, data: Any) -> None:
    check_fields(server, path, data)


API = schemathesis.openapi.from_dict(DESCRIBED)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@settings(LIMITED, max_examples=12)
@given(data=st.data())
def test_answers_are_as_described(server: Served, route: Any, data: Any) -> None:
    check_route(server, route, data)


@pytest.mark.exhaustive
@pytest.mark.parametrize("route", POSTS, ids=lambda route: route.path)
@settings(LIMITED, max_examples=400)
@given(data=st.data())
def test_many_answers_are_as_described(server: Served, route: Any, data: Any) -> None:
    check_route(server, route, data)
