"""Which device computes which block.

The blocks of a model with L layers are numbered in the order in which they are computed:

    0 … 2L - 1    layer i: its token mixer is 2i, its feed-forward 2i + 1
    2L            the output head: last norm and logits

A placement has the number of a device for each of them. Device 0 is the CPU, which also looks up the embeddings. The
hidden state crosses to another device wherever neighbours differ, so a policy gives each device one run of blocks.
"""

from itertools import groupby

Placement = tuple[int, ...]
CPU, GPU = 0, 1


def mixer(layer: int) -> int:
    """The block of a layer's token mixer."""
    return 2 * layer


def feed_forward(layer: int) -> int:
    """The block of a layer's feed-forward."""
    return 2 * layer + 1


def head(layers: int) -> int:
    """The block of the output head."""
    return 2 * layers


def blocks(layers: int) -> int:
    """How many blocks a model has."""
    return head(layers) + 1


def on_cpu(layers: int) -> Placement:
    """Everything on the CPU."""
    return (CPU,) * blocks(layers)


def last_layers(layers: int, n: int) -> Placement:
    """The last `n` layers on the GPU; if `n` is more than there are, the output head as well.

    The last, not the first: with the head they stay one run, so the hidden state goes over once and logits come back.
    """
    whole = min(n, layers)
    return (CPU,) * (2 * (layers - whole)) + (GPU,) * (2 * whole) + (GPU if n > layers else CPU,)


def mixers_only(placement: Placement) -> Placement:
    """The same without feed-forwards (where most weights and all experts are), which stay on the CPU."""
    return (*(CPU if block % 2 else on for block, on in enumerate(placement[:-1])), placement[-1])


def fewer_layers(placement: Placement) -> int:
    """How many layers to try next on a GPU that has no room for those of this placement."""
    return len({block // 2 for block, on in enumerate(placement[:-1]) if on == GPU}) * 3 // 4


def parts(placement: Placement) -> list[tuple[int, range]]:
    """Runs of blocks on the same device, in order: (device, blocks).

    The first is the CPU's, if need be without a block: that is where tokens become hidden states.
    """
    runs: list[tuple[int, range]] = [] if placement[0] == CPU else [(CPU, range(0))]
    for device, members in groupby(range(len(placement)), key=placement.__getitem__):
        run = list(members)
        runs.append((device, range(run[0], run[-1] + 1)))
    return runs
