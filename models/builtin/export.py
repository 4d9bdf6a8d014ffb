"""Writing the checkpoint in Hugging Face's layout, for `transformers` and `edgellm convert`."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from conversations import END, START
from network import Network, NetworkConfig

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

CARD = """---
name: edgellm's built-in model
license: mit
language:
- en
tags:
- edgellm
---
Five million parameters that answer questions about edgellm and local inference. The folder above has the recipe.
"""


def export(network: Network, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the weights as BF16, the tokenizer, and the JSON files beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    weights = {f"model.{name}": weight.detach().to(torch.bfloat16) for name, weight in network.named_parameters()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    start, end = (tokenizer.token_to_id(token) for token in (START, END))
    ends = {"bos_token_id": start, "eos_token_id": end}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **NetworkConfig().to_dict(),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        **ends,
    }
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "eos_token": END,
        "pad_token": END,
        "add_bos_token": False,
        "model_max_length": NetworkConfig().max_position_embeddings,
        "chat_template": TEMPLATE,
    }
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    _write(folder / "config.json", config)
    _write(folder / "tokenizer_config.json", about)
    _write(folder / "generation_config.json", {**ends, "do_sample": True, "temperature": 0.2, "top_k": 20})


def _write(path: Path, values: dict[str, object]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
