"""Options of other programs that edgellm does not have, and what to do instead."""

import re
from collections.abc import Container

_NO_SWITCH = "edgellm chooses this itself; leave it out"
_DRAFT = (
    "--draft MODEL drafts with a smaller model, which `edgellm pull` gets",
    "`--draft MODEL` of `edgellm generate`, `chat`, `serve` and `batch` drafts with a smaller model",
)
_SPECULATION = (
    "drafts from the text itself need no option; --draft MODEL or auto adds those of a model or head, off ends all",
    "`--draft MODEL` of `edgellm generate`, `chat`, `serve` and `batch` adds drafts of a model or head",
)
_DRAFT_PLACE = "a draft model is on the CPU, with the threads, the context and the KV type of its target; leave it out"
_ONE_GPU = "one GPU is used; --gpu NAME selects it"
_HELD = "`edgellm generate --json-schema`, `--regex`, `--choice` and `--grammar` hold replies to a form"
_CALLED = "`edgellm generate --tools FILE` prints calls of tools, and /tools FILE in `edgellm chat` runs them"
_TOKENIZE = "the text comes on stdin: echo TEXT | edgellm tokenize MODEL"

_FOR_ALL_COMMANDS: dict[str, str | tuple[str, ...]] = {
    "-b -ub -fa -dt -kvu -no-kvu -dio -ndio -nr -lm -lzm -gan -gaw -fit -fitt -fitc -cb -nocb -lv -co": _NO_SWITCH,
    "--batch-size --ubatch-size --flash-attn --mlock --mmap --no-mmap --color --no-warmup --numa": _NO_SWITCH,
    "-ctk -ctv --cache-type-k --cache-type-v": "--kv-type TYPE is for keys and values together",
    "-cl --cache-list": "`edgellm list` shows the models on this machine",
    "-dev -mg --device --main-gpu": "--gpu NAME selects the GPU, by its name or number in `edgellm devices`",
    "-e --escape --no-escape": "escapes in a prompt are not expanded; in a shell, $'\\n' is a line end",
    "-hf -hfr -hff -mu -dr --hf-repo --hf-file --model-url --docker-repo": (
        "`edgellm pull REPO` gets a model from Hugging Face; then give its name as MODEL"
    ),
    "-hft --hf-token": "set HF_TOKEN in the environment",
    "-i -if --interactive --interactive-first": "`edgellm chat MODEL` talks in the terminal",
    "-j -jf --json-schema --json-schema-file": ("--json-schema FILE|TEXT holds the reply to a schema", _HELD),
    "--grammar --grammar-file": ("--grammar FILE holds the reply to a grammar in Lark or GBNF", _HELD),
    "--choice --choices --regex": _HELD,
    "--tool-choice --tools": _CALLED,
    "--format": ("--json-schema holds the reply to a schema; --json prints it in an object", _HELD),
    "-kvo -nkvo --kv-offload --no-kv-offload": "the KV cache of a layer is where --gpu-layers puts the layer",
    "--lora --lora-scaled": "merge the adapter into its base model (peft: merge_and_unload), then `edgellm convert` it",
    "-hfd -hfrd --hf-repo-draft --spec-draft-hf -md --model-draft --spec-draft-model": _DRAFT,
    "-td -tbd -cd -ngld -devd -ctkd -ctvd -cmoed -ncmoed -otd --ctx-size-draft --device-draft": _DRAFT_PLACE,
    "--threads-draft --threads-batch-draft --gpu-layers-draft --n-gpu-layers-draft --cpu-moe-draft": _DRAFT_PLACE,
    "--n-cpu-moe-draft --cache-type-k-draft --cache-type-v-draft --override-tensor-draft": _DRAFT_PLACE,
    "--spec-draft-device --spec-draft-ngl --spec-draft-threads --spec-draft-threads-batch": _DRAFT_PLACE,
    "--spec-draft-type-k --spec-draft-type-v --spec-draft-cpu-moe --spec-draft-n-cpu-moe": _DRAFT_PLACE,
    "--draft-min --draft-n-min --draft-p-min --draft-p-split": _NO_SWITCH,
    "--spec-draft-n-min --spec-draft-p-min --spec-draft-p-split": _NO_SWITCH,
    "--spec-ngram-size-n --spec-ngram-size-m --spec-ngram-min-hits": _NO_SWITCH,
    "--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match": _NO_SWITCH,
    "--spec-type --spec-default --speculative-config": _SPECULATION,
    "-lcs -lcd --lookup-cache-static --lookup-cache-dynamic": "drafts are looked up in the text at hand; leave it out",
    "-mli --multiline-input": "in `edgellm chat` Ctrl+J makes a new line",
    "-mm -mmu --mmproj --mmproj-url --image": "models read text only",
    "-ncffn --n-cpu-ffn": "--cpu-ffn keeps the feed-forwards of all layers on the CPU",
    "-np --parallel": ("--parallel N decodes N sequences at once", "one command writes one reply"),
    "-ot --override-tensor": "--gpu-layers, --n-cpu-moe and --cpu-ffn select what is on the GPU",
    "--outtype": "--type TYPE selects the type of the new file",
    "-sm -ts --split-mode --tensor-split": _ONE_GPU,
    "-st --single-turn": "`edgellm generate MODEL -p TEXT` writes one reply and ends",
    "-tb --threads-batch": "--threads N is for prompts and replies alike",
    "-C -Cr -Cb -Crb --cpu-mask --cpu-range": "--threads N is the number of threads",
    "-v --verbose --log-verbose": "there is no verbose mode; leave it out",
}
"""From names of options to texts. The first text applies whose own options (those not in backticks) the command has."""

_FOR_COMMAND: dict[str, dict[str, str | tuple[str, ...]]] = {
    "bench": {"-r --repetitions": "--rounds N is the number of rounds"},
    "chat": {
        "-j -jf --json-schema --json-schema-file --format": "/schema FILE in the chat holds replies to a schema",
        "--mcp --mcp-config": "/mcp FILE in the chat starts MCP servers",
        "--tools": "/tools FILE in the chat gives the model commands that it may call",
    },
    "cli": {"-v": "-V shows the version"},
    "tokenize": {"-p -f --prompt --file --stdin": _TOKENIZE},
}
_OWN_OPTION = re.compile(r"`[^`]*`|(?<![\w-])(--[a-z-]+)")


def _by_name(table: dict[str, str | tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    texts = {names: (text,) if isinstance(text, str) else text for names, text in table.items()}
    return {name: text for names, text in texts.items() for name in names.split()}


UNSUPPORTED_OPTIONS = _by_name(_FOR_ALL_COMMANDS)
_COMMAND_ADVICE = {command: _by_name(table) for command, table in _FOR_COMMAND.items()}


def unsupported_advice(command: str, name: str, options: Container[str]) -> str:
    """What to do instead of the option `name` in a command that has `options`; empty without advice."""
    texts = _COMMAND_ADVICE.get(command, {}).get(name) or UNSUPPORTED_OPTIONS.get(name, ())
    return next((text for text in texts if all(own in options for own in _OWN_OPTION.findall(text) if own)), "")
