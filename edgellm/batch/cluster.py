"""A batch on a Ray cluster: Ray Data maps shards of the requests over workers, each with a model of its own.

The journal stays with the caller. A shard whose worker dies is computed again by another one.
"""

import atexit
import logging
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgellm.batch.answers import BatchAnswer
from edgellm.batch.job import Job
from edgellm.batch.worker import BatchWorker, WorkerSettings, packed
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable
from edgellm.system.optional_packages import install_command

LOCAL = "local"
_REACHED_S = 10.0
"""Seconds in which a cluster must accept a connection."""

_HEALTHY_S = 40.0
"""Seconds in which a cluster must say that it runs. Ray itself tries for minutes, and writes about it meanwhile."""

_SHARDS = 4
"""Shards for each worker at least, so that the last ones end together."""

_LARGEST_SHARD = 128
_START = "ray start --head --port="
_NO_TOKEN = re.compile(rb"InvalidAuthToken|Unauthenticated|AuthenticationError", re.IGNORECASE)
_TOKEN = "it asks for a token: set RAY_AUTH_MODE=token, and have its token in ~/.ray/auth_token"
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to anyone
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a worker sees the GPUs of its node, though it reserves none
}


def check_address(address: str) -> None:
    """Raises EdgeLLMError without Ray, and for a cluster that cannot be reached; OptionError for what is no address."""
    if find_spec("ray") is None:
        raise EdgeLLMError(f"--ray needs the package ray; install it with: {install_command('ray')}")
    if address == LOCAL:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise OptionError(f"option ray cannot be {printable(address)!r}: give HOST:PORT, or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED_S).close()
        check = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
        subprocess.run(check, capture_output=True, timeout=_HEALTHY_S, check=True, stdin=subprocess.DEVNULL)
    except (OSError, OverflowError, subprocess.SubprocessError) as error:
        problem = f"no Ray cluster answers at {printable(address)} ({_reason(error)})"
        wants_token = isinstance(error, subprocess.CalledProcessError) and _NO_TOKEN.search(error.stderr)
        raise EdgeLLMError(f"{problem}; {_TOKEN if wants_token else f'start one with: {_START}{port}'}") from None


def _reason(error: Exception) -> str:
    """Why a cluster cannot be used."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"nothing within {error.timeout:.0f} s"
    if isinstance(error, subprocess.CalledProcessError):  # the last line of a traceback
        return printable(error.stderr.decode(errors="replace").strip().rpartition("\n")[2], 200)
    return str(error)


def answers_of_cluster(
    job: Job, pending: Sequence[int], settings: WorkerSettings, address: str
) -> Iterator[BatchAnswer]:
    """The answers to requests, as their shards come. Raises EdgeLLMError. Closing the iterator ends the workers."""
    own = _ENVIRONMENT | (_own_token() if address == LOCAL else {})
    os.environ.update({name: value for name, value in own.items() if name not in os.environ})
    import ray
    import ray.data

    with _connected(ray, address), _errors(ray):
        cpus, workers = _workers(ray.nodes(), settings.load.get("threads"))
        at_most = max(1, min(_LARGEST_SHARD, len(pending) // (_SHARDS * workers)))
        shards = [pending[at : at + at_most] for at in range(0, len(pending), at_most)]
        items = [{"shard": packed([(i, job.answer_id(i), job.request(i)) for i in shard])} for shard in shards]
        dataset = ray.data.from_items(items).map_batches(
            BatchWorker,
            batch_size=1,
            # A pool that may shrink: a worker of a node that is gone for good begins again where another one has ended.
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(workers, len(shards))),
            num_cpus=cpus,
            fn_constructor_kwargs={"settings": asdict(settings)},
        )
        for row in dataset.iter_rows():
            yield BatchAnswer(**row)


def _own_token() -> dict[str, str]:
    """The environment that protects a cluster by a random token; without it Ray writes a token to ~/.ray."""
    if os.environ.keys() & {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
        return {}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _workers(nodes: Sequence[Mapping[str, Any]], threads: int | None) -> tuple[int, int]:
    """The CPUs of a worker, and how many workers there are: one on each node, or as many as `threads` allow.

    Raises EdgeLLMError for a cluster without CPUs, in which no worker would ever begin.
    """
    found = [count for node in nodes if node["Alive"] and (count := int(node["Resources"].get("CPU", 0)))]
    if not found:
        raise EdgeLLMError("the Ray cluster has no CPUs; start a node that has some")
    if threads is None:  # the smallest node has a worker, too; Ray Data spreads them
        return min(found), len(found)
    cpus = min(threads, max(found))
    return cpus, sum(count // cpus for count in found)


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """A connection to the cluster; `local` starts one, and ends it."""
    folder = Path(tempfile.mkdtemp(prefix="edgellm-ray-")) if address == LOCAL else None
    local: dict[str, Any] = {"include_dashboard": False, "_temp_dir": str(folder)} if folder else {}
    if folder:  # processes of a start that fails end with this one, and write until then
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        _connect(ray, address, local)
        yield
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _connect(ray: Any, address: str, local: Mapping[str, Any]) -> None:
    """Connect, without Ray's own messages. Raises EdgeLLMError."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        environment = {"env_vars": _ENVIRONMENT}
        ray.init(address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR, **local)
    except Exception as error:  # Ray raises Exception itself, such as after a start that takes too long
        why = printable(str(error), 300)
        if address == LOCAL:
            raise EdgeLLMError(f"no Ray cluster starts on this machine: {why}; leave out --ray, or try again") from None
        problem = f"the Ray cluster at {printable(address)} cannot be used: {why}"
        raise EdgeLLMError(f"{problem}; all its machines need the same versions of Python and ray") from None
    with warnings.catch_warnings():  # Ray's about itself
        warnings.simplefilter("ignore")
        ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


@contextmanager
def _errors(ray: Any) -> Iterator[None]:
    """Errors of workers, as they were raised there."""
    try:
        yield
    except ray.exceptions.RayError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, EdgeLLMError):
            cause = getattr(cause, "cause", None) or cause.__cause__
        if cause is not None:
            raise cause from None
        raise EdgeLLMError(f"a worker of the Ray cluster failed: {printable(str(error), 600)}") from None
