"""Fixtures: small model files, the folder of shared data, a home that is not the user's, a frontend of the chat."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings
from platformdirs import user_cache_path

from edgellm.engine.threadpool import ThreadPool
from support import SHARED, TESTS, workers
from support.chat_fakes import FakeModel
from support.family_file import DescribeFamily, describe_family
from support.headless_chat import HeadlessFrontend, MakeFrontend
from support.make_gguf import Spec, write_model
from support.model_file import FamilyFile, ModelFile
from support.thread_chains import new_pool

# No test depends on the time that it takes, as other programs may have the cores.
settings.register_profile("edgellm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgellm")


def pytest_configure() -> None:
    # Where a shell began the tests in its background, they ignore Ctrl-C, and so would all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Otherwise each of the programs that they start would compile its modules anew, which takes half of its time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return workers.count(config.args)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> workers.ByFile:
    return workers.ByFile(config, log)


def pytest_collection_finish() -> None:
    # A collection of garbage, of which some tests ask many, would go through the objects of all tests: half a second.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A file that takes long and begins last would keep one worker busy alone.
    items.sort(key=workers.longest_first)


@pytest.fixture(scope="session", autouse=True)
def fresh_home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of the user's is read or written; compiled code is kept between runs, as it is slow to make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGELLM_HOME", str(tmp_path_factory.mktemp("home")))
        for name in ("COLUMNS", "LINES"):  # a worker is given those of its parent's terminal
            patch.delenv(name, raising=False)
        cache = Path(os.environ.get("EDGELLM_CACHE") or user_cache_path("edgellm-tests"))
        patch.setenv("EDGELLM_CACHE", str(cache))
        is_text_alone = all(item.path.is_relative_to(TESTS / "text") for item in request.session.items)
        if hasattr(request.config, "workerinput") and not is_text_alone:
            # Once, before two workers need the same kernels, and before a program with a time limit does.
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(cache / "tests.lock"):
                workers.compile_all(cache)
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
def family_file(tmp_path_factory: pytest.TempPathFactory) -> FamilyFile:
    """`family_file("gemma2")`: the path of a case of `support.families`, converted once, with F32 weights."""
    folder = tmp_path_factory.mktemp("families")
    written: dict[str, Path] = {}

    def get(name: str) -> Path:
        from support.families.files import write_family_file  # imports the converters, which most tests do not need

        if name not in written:
            written[name] = write_family_file(folder, name)
        return written[name]

    return get


@pytest.fixture
def described_family(tmp_path: Path) -> DescribeFamily:
    """`described_family("phi3", keys, tensors)`: the description of a file as `support.family_file` writes it."""
    return partial(describe_family, tmp_path / "m.gguf")


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

    monkeypatch.setattr("edgellm.engine.gpu_process.DeviceProxy", Here)


@pytest.fixture
def make_frontend(tmp_path: Path) -> Iterator[MakeFrontend]:
    """Frontends, each with a controller of its own, for the same store."""
    made: list[HeadlessFrontend] = []

    def make(model: FakeModel | None = None) -> HeadlessFrontend:
        made.append(HeadlessFrontend(tmp_path / "chats.db", model))
        return made[-1]

    yield make
    for frontend in made:
        frontend.controller.close()
