"""Placement: which device computes which block.

The blocks of a model with L layers are numbered in the order in which they are computed:

    0 … 2L - 1    layer i: its token mixer is 2i, its feed-forward 2i + 1
    2L            the output head: last norm and logits

A placement has the number of a device for each block. Device 0 is the CPU, which also looks up the embeddings. The
hidden state is copied wherever consecutive blocks are on different devices, so each device should have one run of them,
unless the blocks between are those that gain least from a GPU for their memory: experts, of which few are read.
"""

from collections.abc import Collection, Sequence
from itertools import accumulate, groupby

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


def longest_run(able: Sequence[bool], layers: int, *, kept: Collection[int] = (), cpu_head: bool = False) -> Placement:
    """The longest run of blocks that a GPU is able to compute on the GPU, or the last `layers` layers of it.

    `able[block]` says whether it is. With more `layers` than there are, the output head may be in the run. A single run
    has the hidden state copied there and back once; of equally long runs the last one is taken, as no hidden state
    comes back from the output head. With `cpu_head` the head stays on the CPU, and so do the blocks `kept`, which do
    not end a run: the hidden state is copied there and back for each of them.
    """
    last = len(able) - 1
    takes_head = layers > last // 2 and not cpu_head
    candidates = [b for b in range(len(able)) if b not in kept and (b < last or takes_head)]
    best: list[int] = []
    for is_able, members in groupby(candidates, key=able.__getitem__):
        run = list(members)
        first_layer = min(run[-1], last - 1) // 2 + 1 - layers
        run = [block for block in run if block // 2 >= first_layer]
        if is_able and len(run) >= len(best):
            best = run
    return tuple(GPU if block in best else CPU for block in range(len(able)))


def with_empty_blocks(placement: Placement, empty: Collection[int]) -> Placement:
    """The placement with each block of `empty` where the block before it is: no hidden state is copied for it."""
    found = list[int]()
    for block, device in enumerate(placement):
        found.append((found[-1] if found else CPU) if block in empty else device)
    return tuple(found)


def fewer_layers(placement: Placement) -> int:
    """The number of layers to try next on a GPU that has too little memory for those of this placement."""
    return len({block // 2 for block, on in enumerate(placement[:-1]) if on == GPU}) * 3 // 4


def is_split(placement: Placement) -> bool:
    """Whether some layers have their token mixer on a GPU, and their feed-forward on the CPU."""
    return any(block % 2 == 0 and placement[block : block + 2] == (GPU, CPU) for block in range(len(placement) - 1))


def layer_before(block: int) -> int | None:
    """The layer that ends before a block; None if none does."""
    return None if block % 2 or not block else block // 2 - 1


def runs(placement: Placement, taps: Collection[int] = ()) -> list[tuple[int, range]]:
    """Runs of blocks on the same device, in order: (device, blocks). A run ends behind each layer of `taps`.

    The first run is the CPU's, which looks up the embeddings; it may be empty.
    """
    found: list[tuple[int, range]] = [] if placement[0] == CPU else [(CPU, range(0))]
    part = list(accumulate(int(layer_before(block) in taps) for block in range(len(placement))))
    for (device, _), members in groupby(range(len(placement)), key=lambda block: (placement[block], part[block])):
        run = list(members)
        found.append((device, range(run[0], run[-1] + 1)))
    return found
