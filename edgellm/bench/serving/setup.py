"""Opens what a benchmark of serving measures."""

import os
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from secrets import randbits
from typing import Any

from edgellm.arch import describe
from edgellm.bench.serving.local_target import LocalTarget
from edgellm.bench.serving.options import ServingOptions
from edgellm.bench.serving.prompts import PromptMaker
from edgellm.bench.serving.requests import RequestSource
from edgellm.bench.serving.server_target import ServerTarget
from edgellm.bench.serving.serving_bench import ServingBench
from edgellm.gguf import GGUFFile
from edgellm.model import Model
from edgellm.models import resolve
from edgellm.text.tokenizer import Tokenizer
from kquants.jit import Progress

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
        options = options.fit_to_context(describe(file).context_length, chosen)
        tokenizer = Tokenizer(file)
    seed = randbits(32) if options.seed is None else options.seed
    options = replace(options, seed=seed)
    source = RequestSource(PromptMaker(tokenizer, seed, options.shared_prefix), options, seed)
    if options.server is not None:
        key = os.environ.get("EDGELLM_API_KEY")
        target = ServerTarget(options.server, options.server_model, key, tokenizer.eog_ids)
        yield ServingBench(target, target.shown, source, options, MOST_CONNECTIONS)
        return
    with Model.open(path, progress=compiling, **load) as model:
        yield ServingBench(LocalTarget(model), path.name, source, options, options.parallel)
