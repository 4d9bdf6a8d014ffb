"""How a server runs: its address, who may use it, and how much at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PARALLEL = 8
"""Requests that generate at once: a batch of eight sequences has about four times the tokens per second of one."""

MAX_QUEUE = 64
"""Requests that wait for others."""

KEEP_ALIVE_S = 300.0
"""Seconds after its last request until a model is unloaded."""

MAX_BODY_BYTES = 32 << 20
"""The largest body of a request."""

BODY_TIMEOUT_S = 60.0
"""Seconds in which a request, with its body, must arrive."""

SEND_TIMEOUT_S = 60.0
"""Seconds in which a client must take a part of an answer."""

GRACE_S = 60.0
"""Seconds in which running requests may end after a signal to stop."""

MAX_CONNECTIONS = 512
"""Connections at once; further ones get an error."""


@dataclass(frozen=True)
class ServeSettings:
    """Settings of one server.

    `models` are what the user named; without any, all models of this machine are served. `load` are options of
    `Model.open`; its `kv_memory` is for all models together. `keep_alive` is in seconds, negative for ever. `origins`
    are the web pages, as in the header Origin, whose scripts may use the server. `unix` is the path of a socket, which
    takes the place of `host` and `port`. `slo_ttft` is the longest wait for a first token in seconds, None for any.
    `schedule` and `slo_itl` are those of `Model.open`. `version` is that of edgellm.
    """

    models: tuple[str, ...] = ()
    load: Mapping[str, Any] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 8080
    unix: str | None = None
    api_key: str | None = None
    origins: tuple[str, ...] = ()
    parallel: int = PARALLEL
    max_queue: int = MAX_QUEUE
    keep_alive: float = KEEP_ALIVE_S
    schedule: Literal["srpt", "fcfs"] = "srpt"
    slo_ttft: float | None = None
    slo_itl: float | None = None
    version: str = ""
    max_body: int = MAX_BODY_BYTES
    body_timeout: float = BODY_TIMEOUT_S
    send_timeout: float = SEND_TIMEOUT_S
