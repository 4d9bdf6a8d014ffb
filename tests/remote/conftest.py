"""The server that answers as it is told."""

from collections.abc import Iterator

import pytest

from support.fake_api import FakeAPI, fake_api, listing


@pytest.fixture(scope="module")
def running_api() -> Iterator[FakeAPI]:
    with fake_api() as found:
        yield found


@pytest.fixture
def api(running_api: FakeAPI) -> FakeAPI:
    running_api.answers, running_api.asked, running_api.models = [], [], listing({"id": "m", "owned_by": "vllm"})
    running_api.gone.clear()
    return running_api
