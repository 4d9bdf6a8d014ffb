"""The types of options as typed keyword arguments, for editors and type checkers.

None means "not given". `edgellm.options` has defaults and help texts, and checks the values when a program runs.
"""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict


class LoadArguments(TypedDict, total=False):
    """Keyword arguments of `Model.open`; see `edgellm.options.LoadOptions`."""

    threads: int | None
    ctx: int | None
    gpu_layers: int | str | None
    gpu: str | None
    gpu_memory: float | None
    gpu_strict: bool | None
    cpu_ffn: bool | None
    cpu_moe: bool | None
    n_cpu_moe: int | None
    kv_type: Literal["f16", "f32", "q8_0"] | None
    kv_memory: float | None
    engine: Literal["edgellm", "llama.cpp"] | None
    tokenizer_pre: str | None
    draft: str | PathLike[str] | None
    draft_max: int | None
    draft_rule: Literal["same", "rejection"] | None


class GenerationArguments(TypedDict, total=False):
    """Keyword arguments of `Model.stream` and `Model.generate`; see `edgellm.options.GenerationOptions`."""

    max_tokens: int | None
    temp: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repeat_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    penalty_last_n: int | None
    logit_bias: Mapping[int, float] | None
    seed: int | None
    stop: str | list[str] | tuple[str, ...] | None
    special: bool | None
    logprobs: bool | int | None
    json_schema: Mapping[str, Any] | bool | type[Any] | str | None
    regex: str | None
    choices: list[str] | tuple[str, ...] | None
    grammar: str | None
    partial: bool | None
    think_max: int | None
    beams: int | None


class ReplyArguments(GenerationArguments, total=False):
    """Keyword arguments of `Chat.send`; see `edgellm.options.ChatOptions`. `template_args` are template variables.

    `tools` are functions and OpenAI definitions of functions. `tool_choice` is "auto", "none", "required", the name
    of a tool, or OpenAI's object with a name. With `parallel_tool_calls` False a reply has one call at most.
    """

    template_args: Mapping[str, Any] | None
    overflow: Literal["stop", "drop", "window"] | None
    tools: Iterable[Any] | None
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool | None


class ChatArguments(ReplyArguments, total=False):
    """Keyword arguments of `Model.chat`. `template` is the source of a chat template, or the name of a built-in one."""

    template: str | None
