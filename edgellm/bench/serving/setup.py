"""Opens what a benchmark of serving measures."""

import os
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from secrets import randbits
from typing import Any

from edgellm.arch import describe
from edgellm.bench.options import OURS
from edgellm.bench.serving.energy import Energy
from edgellm.bench.serving.local_target import LocalTarget
from edgellm.bench.serving.options import ServingOptions
from edgellm.bench.serving.prompts import PromptMaker
from edgellm.bench.serving.requests import RequestSource, random_rows, trace_rows
from edgellm.bench.serving.server_target import ServerTarget
from edgellm.bench.serving.serving_bench import ServingBench
from edgellm.bench.serving.target import Target
from edgellm.errors import OptionError
from edgellm.gguf import GGUFFile
from edgellm.model import Model
from edgellm.models import resolve
from edgellm.text.tokenizer import Tokenizer
from kquants.jit import Progress

_KEY = "EDGELLM_API_KEY"
MOST_CONNECTIONS = 512
"""Requests that are sent to a server at once."""


@contextmanager
def open_serving(
    name: str, options: ServingOptions, chosen: Set[str], load: Mapping[str, Any], compiling: Progress
) -> Iterator[ServingBench]:
    """A benchmark of the model `name` in this process, or of a server with the tokens of this model.

    Raises EdgeLLMError and its subclasses.
    """
    path = resolve(name)
    with GGUFFile.open(path) as file:
        context = describe(file).context_length
        options = options.fit_to_context(context, chosen)
        tokenizer = Tokenizer(file)
    seed = randbits(32) if options.seed is None else options.seed
    options = replace(options, seed=seed)
    rows, left_out = trace_rows(options.trace, context, options) if options.trace else ([], 0)
    source = RequestSource(
        PromptMaker(tokenizer, seed, options.shared_prefix), cycle(rows) if rows else random_rows(options, seed), seed
    )
    with ExitStack() as stack:
        targets = dict[str, Target]()
        for server in (options.server, options.against_server):
            if server is not None:
                targets[server] = _server(server, options, tokenizer)
        if options.server is None:
            model = stack.enter_context(Model.open(path, progress=compiling, **load))
            targets = {OURS: LocalTarget(model, options.temp), **targets}
        energy = _energy(options, targets)
        at_once = options.parallel if options.server is None else MOST_CONNECTIONS
        yield ServingBench(str(path), targets, source, options, energy, at_once, rows, left_out)


def _server(url: str, options: ServingOptions, tokenizer: Tokenizer) -> ServerTarget:
    return ServerTarget(url, options.server_model, os.environ.get(_KEY), tokenizer.eog_ids, options.temp)


def _energy(options: ServingOptions, targets: Mapping[str, Target]) -> Energy:
    """Raises OptionError if a price of energy is given, but its amount is not known."""
    energy = Energy(options.watts, all(target.is_local for target in targets.values()))
    if options.price_kwh is not None and energy.source is None:
        raise OptionError(f"option price_kwh needs the energy: {energy.note}: give --watts")
    return energy
