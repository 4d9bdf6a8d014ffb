"""Every option that a user can set: its name, type, default, check, help text and choices.

The command line, the chat's settings and the Python names take all of these from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.errors import OptionError
from edgellm.options import checks
from edgellm.options.base import Options, documented, option

MAX_DRAFT = 7
"""Largest number of draft tokens in a step. Time of a step with 2, 4, 8 and 9 rows relative to one row, measured on
Zen 4 with a 1.2B model: 1.0 to 1.2, 1.2 to 1.5, 1.6 to 2.5, 2.3 to 4; less the slower the memory is."""


@documented
@dataclass(frozen=True, slots=True)
class LoadOptions(Options):
    """How a model is opened. An option that is None is determined from the machine or the file.

    The context holds prompt and reply together. A model below 8 MiB runs on one thread by default. `gpu_layers` "all"
    puts the output head on the GPU as well as all layers. `kv_memory` limits the part of the KV cache on the CPU, with
    that of a draft model. A draft model is loaded in the background, and its drafts are used where they save time. With
    `draft_rule` "rejection" the text depends on the drafts, and a seed does not repeat it.
    """

    threads: int | None = option(None, checks.integer(1, 512), "Compute threads; by default one per performance core")
    ctx: int | None = option(None, checks.integer(1), "Context length in tokens; by default the model's")
    gpu_layers: int | str = option(
        "auto", checks.gpu_layers, "Layers on the GPU, from the last: a number, all, or auto"
    )
    gpu: str | None = option(
        None, checks.nonempty_text, "GPU to use: its number or a part of its name in `edgellm devices`"
    )
    gpu_memory: float | None = option(None, checks.number(0.001, 1_000_000), "GPU memory that may be used, in GB")
    gpu_strict: bool = option(
        False, checks.boolean, "Fail if the GPU cannot do what is asked, instead of using the CPU"
    )
    cpu_ffn: bool = option(False, checks.boolean, "Keep the feed-forward blocks of the GPU's layers on the CPU")
    cpu_moe: bool = option(False, checks.boolean, "Keep the experts of all layers on the CPU")
    n_cpu_moe: int | None = option(None, checks.integer(0), "Keep the experts of the first N layers on the CPU")
    kv_type: str = option(
        "f16",
        checks.one_of("f16", "f32", "q8_0"),
        "KV cache type: f16, f32, or q8_0 with half the memory",
    )
    kv_memory: float | None = option(
        None,
        checks.number(0, 1_000_000, above=True),
        "GB of memory for the KV cache; by default what is free",
    )
    engine: str = option(
        "edgellm", checks.one_of("edgellm", "llama.cpp"), "Engine that runs the model: edgellm or llama.cpp"
    )
    tokenizer_pre: str | None = option(
        None, checks.nonempty_text, "Pre-tokenizer to use instead of the one that the file names"
    )
    draft: str | None = option(
        None,
        checks.draft,
        "Smaller model or head that drafts tokens: MODEL, auto to find one, or off",
    )
    draft_max: int | None = option(
        None, checks.integer(1, MAX_DRAFT), f"Most draft tokens in a step; by default as many as pay, up to {MAX_DRAFT}"
    )
    draft_rule: str = option(
        "same",
        checks.one_of("same", "rejection"),
        "How drafts are accepted: same keeps the text, rejection accepts more at temperatures above 0",
    )

    def __post_init__(self) -> None:
        """Check each value, and that no option makes another meaningless. Raises OptionError."""
        Options.__post_init__(self)
        kept = {"cpu_ffn": self.cpu_ffn, "cpu_moe": self.cpu_moe, "n_cpu_moe": self.n_cpu_moe is not None}
        given = [name for name, is_given in kept.items() if is_given]
        if len(given) > 1:
            first = f"option {given[0]}, which keeps {_KEPT_ON_CPU[given[0]]} on the CPU"
            raise OptionError(f"option {given[1]} adds nothing to {first}: give one")
        if self.draft == "off" and (useless := self.draft_option):
            raise OptionError(f"option {useless} is about drafts, and with option draft off there are none: give one")

    @property
    def asks_for_draft_model(self) -> bool:
        """Whether a draft model is asked for, by its name or with `auto`."""
        return self.draft not in (None, "off")

    @property
    def names_draft_model(self) -> bool:
        """Whether a draft model is named, which has the vocabulary of one family of models."""
        return self.draft not in (None, "off", "auto")

    @property
    def draft_option(self) -> str | None:
        """The name of an option about drafts that was given beside `draft`."""
        return "draft_max" if self.draft_max is not None else "draft_rule" if self.draft_rule != "same" else None


_KEPT_ON_CPU = {"cpu_ffn": "all feed-forward blocks", "cpu_moe": "the experts of all layers"}
"""What an option keeps on the CPU, so that the options behind it in `LoadOptions` add nothing."""


@documented
@dataclass(frozen=True, slots=True)
class GenerationOptions(Options):
    """How text is generated.

    Defaults of sampling can be replaced by the model file (`file_defaults`). The penalties look at tokens of the prompt
    as well. A stop string may be the text of a control token. At most one of `json_schema`, `regex`, `choices` and
    `grammar` may be given: the reply, behind what the model thinks, conforms to it, or is an IncompleteOutputError.
    """

    max_tokens: int | None = option(
        None, checks.integer(0), "Maximum tokens to generate; by default until the model ends the text"
    )
    temp: float = option(0.8, checks.number(0), "Sampling temperature; 0 always takes the most likely token")
    top_k: int = option(40, checks.integer(0), "Sample from this many of the most likely tokens; 0 is off")
    top_p: float = option(
        0.95, checks.number(0, 1), "Sample from the most likely tokens with this total probability; 1 is off"
    )
    min_p: float = option(
        0.05, checks.number(0, 1), "Drop tokens below this fraction of the top token's probability; 0 is off"
    )
    repeat_penalty: float = option(
        1.0, checks.number(0, above=True), "Divide the logits of tokens that occurred before by this; 1 is off"
    )
    presence_penalty: float = option(
        0.0, checks.number(-100, 100), "Subtract this from the logit of each token that occurred before; 0 is off"
    )
    frequency_penalty: float = option(
        0.0, checks.number(-100, 100), "Subtract this from a token's logit for each time it occurred; 0 is off"
    )
    penalty_last_n: int = option(64, checks.integer(-1), "Number of last tokens that the penalties look at; -1 for all")
    logit_bias: Mapping[int, float] = option(
        {}, checks.logit_bias, "Numbers to add to the logits of tokens, by token id; -inf forbids a token"
    )
    seed: int | None = option(
        None, checks.integer(0, 2**64 - 1), "Random seed: the same seed gives the same text; by default a new one"
    )
    stop: tuple[str, ...] = option((), checks.stop_strings, "Text before which generation stops")
    special: bool = option(False, checks.boolean, "Parse control tokens in a raw prompt, and show them in the output")
    logprobs: bool | int = option(
        True, checks.logprobs, "Report log-probabilities of each token; N adds the N most likely tokens at its position"
    )
    json_schema: Mapping[str, Any] | bool | type[Any] | str | None = option(  # noqa: RUF009 (a field)
        None, checks.json_schema, "JSON schema that the reply is valid against"
    )
    regex: str | None = option(None, checks.nonempty_text, "Regular expression that the whole reply matches")
    choices: tuple[str, ...] | None = option(None, checks.choices, "Texts of which the reply is one")
    grammar: str | None = option(None, checks.nonempty_text, "Grammar that the reply follows, in Lark's syntax or GBNF")
    partial: bool = option(False, checks.boolean, "Allow the limit of tokens to cut off a reply that must conform")
    think_max: int | None = option(None, checks.integer(0), "Tokens of thinking, after which it is ended for the model")
    beams: int | None = option(
        None, checks.integer(1, 64), "Search for the most likely reply with this many beams, in place of sampling"
    )

    def __post_init__(self) -> None:
        """Check each value, and that no two options contradict each other. Raises OptionError."""
        Options.__post_init__(self)
        given = [name for name in FORMS if getattr(self, name) is not None]
        if len(given) > 1:
            raise OptionError(f"option {given[0]} and option {given[1]} exclude each other: give one")
        if given and self.stop:
            raise OptionError(f"option stop would cut off a reply that option {given[0]} holds to a form: give one")
        guided = [*given, *(["think_max"] if self.think_max is not None else [])]
        if guided and self.beams is not None:
            raise OptionError(f"option {guided[0]} and option beams exclude each other: give one")

    @property
    def form(self) -> str | None:
        """The name of the option that holds a reply to a form; None for free text."""
        return next((name for name in FORMS if getattr(self, name) is not None), None)


FORMS = ("json_schema", "regex", "choices", "grammar")
"""The options that hold a reply to a form."""


def check_beams(given: Mapping[str, Any]) -> None:
    """Raises OptionError if options as a user gave them ask for a beam search and for sampling.

    The temperature that a model file recommends is not meant for it, so a search ignores that.
    """
    if given.get("beams") is not None and given.get("temp"):
        raise OptionError("option temp above 0 samples, so it and option beams exclude each other: give one")


def options_of_reply(chat: Mapping[str, Any], reply: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a reply, and those of its chat that the reply does not replace: its form replaces any form."""
    replaced = FORMS if any(reply.get(name) is not None for name in FORMS) else ()
    return {**{name: value for name, value in chat.items() if name not in replaced}, **reply}


@documented
@dataclass(frozen=True, slots=True)
class ChatOptions(Options):
    """What happens to a conversation that outgrows the context.

    `overflow` "stop": no message is dropped. A prompt that does not fit is an error, and a reply ends where the context
    does. "drop": the oldest turns are dropped, each with its reply; the system prompt stays. The turns that stay leave
    room for a reply of `max_tokens`, at most a quarter of the context. Dropping frees a quarter of the context at once,
    so that the following turns find their prefix in the cache. "window": as "drop", and a reply that fills the context
    goes on: more turns are dropped and the rest is read again. When only the last question and the reply are left, the
    system prompt and the last part of both are kept.
    """

    overflow: str = option(
        "stop",
        checks.one_of("stop", "drop", "window"),
        "When the context is full: stop, drop (old turns), or window (sliding)",
    )


@documented
@dataclass(frozen=True, slots=True)
class TemplateOptions(Options):
    """How messages become the text that a model reads."""

    template: str | None = option(
        None,
        checks.nonempty_text,
        "Chat template: chatml, llama3, ..., or a Jinja2 file",
    )
