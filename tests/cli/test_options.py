import dataclasses
import math
from importlib import import_module

import gguf
import numpy as np
import pytest

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.options import (
    FILE_KEYS,
    ChatOptions,
    GenerationOptions,
    LoadOptions,
    Options,
    TemplateOptions,
    file_defaults,
)
from tui.core.settings import SETTINGS

IMPOSSIBLE_LOAD = [
    ("threads", 0),
    ("threads", -1),
    ("threads", 1.0),
    ("threads", True),
    ("threads", "2"),
    ("ctx", 0),
    ("gpu_layers", -1),
    ("gpu_layers", "some"),
    ("gpu_layers", "-1"),
    ("gpu_layers", "9" * 5000),
    ("gpu_layers", 1.5),
    ("gpu", ""),
    ("cpu_moe", 1),
    ("n_cpu_moe", -1),
    ("n_cpu_moe", "all"),
    ("kv_type", "q3"),
    ("kv_type", 16),
    ("engine", "ollama"),
    ("tokenizer_pre", 7),
]
IMPOSSIBLE_GENERATION = [
    ("max_tokens", -1),
    ("temp", -0.1),
    ("temp", math.nan),
    ("temp", math.inf),
    ("temp", 10**400),
    ("temp", True),
    ("temp", "hot"),
    ("top_k", -1),
    ("top_k", 0.5),
    ("top_p", 1.01),
    ("top_p", -0.01),
    ("min_p", 1.01),
    ("min_p", math.nan),
    ("repeat_penalty", 0),
    ("repeat_penalty", -1.0),
    ("presence_penalty", math.inf),
    ("presence_penalty", 101),
    ("frequency_penalty", "a\nb" * 99),
    ("penalty_last_n", -2),
    ("logit_bias", [1, 2]),
    ("logit_bias", {-1: 1.0}),
    ("logit_bias", {"1": 1.0}),
    ("logit_bias", {1: math.inf}),
    ("logit_bias", {1: math.nan}),
    ("seed", -1),
    ("seed", 2**64),
    ("stop", ""),
    ("stop", ["ok", ""]),
    ("stop", ["ok", 3]),
    ("stop", 3),
    ("special", 1),
]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE_LOAD)
def test_impossible_load_options_are_refused_by_name_in_one_line(name: str, value: object) -> None:
    with pytest.raises(OptionError) as caught:
        LoadOptions.from_kwargs(**{name: value})
    message = str(caught.value)
    assert name in message and "\n" not in message and len(message) < 200


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE_GENERATION)
def test_impossible_generation_options_are_refused_by_name_in_one_line(name: str, value: object) -> None:
    with pytest.raises(OptionError) as caught:
        GenerationOptions.from_kwargs(**{name: value})
    message = str(caught.value)
    assert name in message and "\n" not in message and len(message) < 200


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"cpu_moe": True, "n_cpu_moe": 3},
            "n_cpu_moe adds nothing to option cpu_moe, which keeps the experts of all layers",
        ),
        (
            {"cpu_ffn": True, "cpu_moe": True},
            "cpu_moe adds nothing to option cpu_ffn, which keeps all feed-forward blocks",
        ),
        (
            {"cpu_ffn": True, "n_cpu_moe": 0},
            "n_cpu_moe adds nothing to option cpu_ffn, which keeps all feed-forward blocks",
        ),
    ],
)
def test_an_option_that_adds_nothing_to_another_is_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(OptionError) as caught:
        LoadOptions.from_kwargs(**given)
    assert str(caught.value) == f"option {told} on the CPU: give one"
    for name, value in given.items():
        assert getattr(LoadOptions.from_kwargs(**{name: value}), name) == value


def test_no_options_object_has_an_impossible_value() -> None:
    with pytest.raises(OptionError, match="threads cannot be 0: give a whole number, from 1 to 512"):
        LoadOptions(threads=0)
    with pytest.raises(OptionError, match="top_p"):
        dataclasses.replace(GenerationOptions(), top_p=2.0)


@pytest.mark.parametrize(
    "given",
    [
        {"temp": 0, "top_k": 0, "top_p": 0, "min_p": 1, "max_tokens": 0, "seed": 0, "penalty_last_n": -1},
        {"temp": 3.5, "top_k": 10**6, "top_p": 1, "min_p": 0, "seed": 2**64 - 1, "repeat_penalty": 0.01},
        {"presence_penalty": -2.5, "frequency_penalty": -1, "logit_bias": {0: -math.inf, 5: 2}},
    ],
)
def test_values_at_the_edges_are_possible(given: dict[str, object]) -> None:
    options = GenerationOptions.from_kwargs(**given)
    assert {name: getattr(options, name) for name in given} == given


@pytest.mark.parametrize("value", [0, 33, "auto", "all"])
def test_gpu_layers_are_a_number_or_a_word(value: int | str) -> None:
    assert LoadOptions(gpu_layers=value).gpu_layers == value


def test_values_are_converted_to_their_proper_type() -> None:
    options = GenerationOptions.from_kwargs(temp=1, top_k=np.int32(7), top_p=np.float32(0.5), stop="\n\n")
    assert type(options.temp) is float and type(options.top_k) is int and type(options.top_p) is float
    assert (options.top_k, options.top_p, options.stop) == (7, 0.5, ("\n\n",))
    assert GenerationOptions.from_kwargs(stop=["a", "b"]).stop == ("a", "b")
    assert LoadOptions.from_kwargs(gpu_layers="12").gpu_layers == 12


def test_an_unknown_option_names_the_nearest_or_lists_all() -> None:
    with pytest.raises(OptionError, match=r"unknown option temperature: did you mean temp\?"):
        GenerationOptions.from_kwargs(temperature=1.0)
    with pytest.raises(OptionError, match=r"unknown option xyz: .*threads, ctx, .*tokenizer_pre"):
        LoadOptions.from_kwargs(xyz=1)
    for base in (TypeError, EdgeLLMError):  # a Python user may expect either
        with pytest.raises(base, match="unknown option temp"):
            LoadOptions.from_kwargs(temp=1.0)


def test_options_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LoadOptions().threads = 3  # type: ignore[misc]
    bias = {1: 2.0}
    options = GenerationOptions(logit_bias=bias)
    bias[1] = 9.0
    assert options.logit_bias == {1: 2.0}


def test_none_means_not_given() -> None:
    assert LoadOptions.from_kwargs(kv_type=None, threads=None) == LoadOptions()
    assert GenerationOptions.from_kwargs({"temp": 0.3}, temp=None).temp == 0.3
    with pytest.raises(OptionError, match="kv_type cannot be None"):
        LoadOptions(kv_type=None)  # type: ignore[arg-type]


def test_file_defaults_override_the_defaults_but_not_given_values() -> None:
    defaults, notices = file_defaults({"general.sampling.temp": 0.6, "general.sampling.top_k": 20})
    options = GenerationOptions.from_kwargs(defaults, top_k=5)
    assert (options.temp, options.top_k, options.top_p, notices) == (0.6, 5, GenerationOptions().top_p, [])


def test_every_key_of_the_file_sets_its_option() -> None:
    general = gguf.Keys.General
    metadata = {
        general.SAMPLING_TEMP: 0.25,
        general.SAMPLING_TOP_K: -1,
        general.SAMPLING_TOP_P: 0.5,
        general.SAMPLING_MIN_P: 0.125,
        general.SAMPLING_PENALTY_REPEAT: 1.5,
        general.SAMPLING_PENALTY_LAST_N: -1,
        "general.name": "x",
    }
    defaults, notices = file_defaults(metadata)
    assert set(FILE_KEYS) == set(metadata) - {"general.name"} and notices == []
    assert GenerationOptions.from_kwargs(defaults) == GenerationOptions(
        temp=0.25, top_k=0, top_p=0.5, min_p=0.125, repeat_penalty=1.5, penalty_last_n=-1
    )


@pytest.mark.parametrize("value", [math.nan, -1.0, "hot\n" * 50, [0.5], np.zeros(500), None, True])
def test_a_broken_value_in_the_file_is_left_out_with_a_notice(value: object) -> None:
    defaults, notices = file_defaults({"general.sampling.temp": value, "general.sampling.min_p": 0.0})
    assert defaults == {"min_p": 0.0}
    assert len(notices) == 1 and "general.sampling.temp" in notices[0] and "\n" not in notices[0]


def test_a_broken_array_for_top_k_is_left_out_too() -> None:
    assert file_defaults({"general.sampling.top_k": np.array([-1, -1])})[0] == {}


@pytest.mark.parametrize("options", [LoadOptions, GenerationOptions, ChatOptions, TemplateOptions])
def test_every_option_has_a_help_text_of_one_sentence(options: type[Options]) -> None:
    """The help text names each choice, and `help()` shows it with the default."""
    for name in options.names():
        help = options.help(name)
        assert help[0].isupper() and not help.endswith(".") and len(help) <= 100, name
        assert all(choice in help for choice in options.words(name)), name
        assert f"    {name}: {help}" in (options.__doc__ or "")
    assert "temp: Sampling temperature; 0 always takes the most likely token [0.8]." in (
        GenerationOptions.__doc__ or ""
    )


def test_the_command_line_and_the_settings_show_the_help_of_the_option() -> None:
    for command in ("generate", "chat", "plan", "bench", "perplexity"):
        shown = {param.name: param for param in import_module(f"edgellm.cli.{command}").command.params}
        for options in (LoadOptions, GenerationOptions, ChatOptions, TemplateOptions):
            own = {"threads", "ctx", "logprobs", "seed", "temp"} if command in ("bench", "perplexity") else {"logprobs"}
            own |= {"draft", "draft_rule"} if command == "bench" else set()
            for name in (set(options.names()) & set(shown)) - own:
                assert shown[name].help.startswith(options.help(name)), (command, name)
    for setting in SETTINGS:
        options = setting.group.value
        assert setting.help.startswith(options.help(setting.name))
        assert setting.choices == options.words(setting.name)
