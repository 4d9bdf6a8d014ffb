"""Fixtures: small model files, the folder of shared data, a home that is not the user's, a front of the chat."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_path

from edgellm.engine.threads import ThreadPool
from support import SHARED
from support.chat_fakes import FakeModel
from support.desk_front import Front, MakeFront
from support.make_gguf import Spec, write_model
from support.model_file import ModelFile
from support.thread_chains import new_pool


@pytest.fixture(scope="session", autouse=True)
def fresh_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of the user's is read or written; compiled code is kept between runs, as it is slow to make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELLM_HOME", str(tmp_path_factory.mktemp("home")))
        cache = os.environ.get("EDGELLM_CACHE") or str(user_cache_path("edgellm-tests"))
        patch.setenv("EDGELLM_CACHE", cache)
        yield


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    """`model_file(types="Q8_0", ...)`: the path of a random model, written once; the options are Spec's."""
    folder = tmp_path_factory.mktemp("models")
    written: dict[Spec, Path] = {}

    def get(**options: Any) -> Path:
        spec = Spec(**options)
        if spec not in written:
            written[spec] = write_model(folder / f"{len(written)}.gguf", **options)
        return written[spec]

    return get


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of trained models, vocabularies and texts beside the project, if this machine has it."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared data folder beside the project")
    return SHARED


@pytest.fixture(params=[1, 2, 3, 8])
def any_pool(request: pytest.FixtureRequest) -> Iterator[ThreadPool]:
    """A thread pool, of one thread or of several."""
    pool = new_pool(request.param)
    assert pool.count == request.param
    yield pool
    pool.close()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU is used in this process, and not in one of its own: tests look into it."""
    from support.gpus import Here

    monkeypatch.setattr("edgellm.engine.remote.RemoteDevice", Here)


@pytest.fixture
def make_front(tmp_path: Path) -> Iterator[MakeFront]:
    """Fronts, each with a desk of its own, for one and the same store."""
    made: list[Front] = []

    def make(model: FakeModel | None = None) -> Front:
        made.append(Front(tmp_path / "chats.db", model))
        return made[-1]

    yield make
    for front in made:
        front.desk.close()
