"""Trains the built-in model: `python train.py` fills ./checkpoint, in about an hour on two cores.

`--refine FOLDER` starts from the weights of a checkpoint: after a change of topics, some minutes are enough.
"""

import argparse
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from batches import batches
from export import export
from network import Network, NetworkConfig
from tokenizer import make_tokenizer

SEED = 1
STEPS, LEARNING_RATE = 2000, 2e-3
REFINING_STEPS, REFINING_RATE = 1000, 1e-3
BATCH_TOKENS = 3072
WARM_UP = 100
WEIGHT_DECAY = 0.1
DROPOUT = 0.1
CLIP = 1.0
REPORT_EVERY = 25


def main() -> None:
    """Make the tokenizer, train, and write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "checkpoint")
    parser.add_argument("--threads", type=int, default=2, help="1 is better beside other work on two cores")
    parser.add_argument("--refine", type=Path, metavar="FOLDER", help="start from the weights of this checkpoint")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(SEED)
    network = Network(NetworkConfig(), DROPOUT)
    if chosen.refine:
        tokenizer = Tokenizer.from_file(str(chosen.refine / "tokenizer.json"))
        weights = load_file(chosen.refine / "model.safetensors")
        network.load_state_dict({name.removeprefix("model."): weight for name, weight in weights.items()})
        train(network, tokenizer, REFINING_STEPS, REFINING_RATE, SEED + 1)
    else:
        tokenizer = make_tokenizer(NetworkConfig().vocab_size, SEED)
        train(network, tokenizer, STEPS, LEARNING_RATE, SEED)
    export(network, tokenizer, chosen.out)


def train(network: Network, tokenizer: Tokenizer, steps: int, learning_rate: float, seed: int) -> None:
    """Train with AdamW; the learning rate rises for `WARM_UP` steps, then falls linearly to 0."""
    matrices = [weight for weight in network.parameters() if weight.dim() == 2]
    norms = [weight for weight in network.parameters() if weight.dim() == 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), fused=True)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP, 1 - (step - WARM_UP) / (steps - WARM_UP), 1)
    )
    start, losses, tokens = time.monotonic(), [], 0
    data = batches(tokenizer, BATCH_TOKENS, seed)
    for step in range(1, steps + 1):
        ids, targets = next(data)
        with torch.autocast("cpu", torch.bfloat16):
            loss = network.loss(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        rate.step()
        losses.append(loss.item())
        tokens += ids.numel()
        if step % REPORT_EVERY == 0:
            speed = tokens / (time.monotonic() - start)
            mean = sum(losses[-REPORT_EVERY:]) / REPORT_EVERY
            print(f"step {step} of {steps}: loss {mean:.4f}, {tokens:,} tokens, {speed:,.0f} per second", flush=True)


if __name__ == "__main__":
    main()
