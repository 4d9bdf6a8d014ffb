"""Counter-based random numbers: each is a function of seed, sequence and position, not of earlier draws.

Philox4x32-10 of J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): ten rounds
scramble a 128-bit counter under a 64-bit key. Numbers can be computed in any order, so the same seed
gives the same text in a batch, after a retry and with speculative decoding.
"""

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10

Words = tuple[int, int, int, int]


def philox4x32(counter: Words, key: tuple[int, int]) -> Words:
    """Four random 32-bit words for a counter of four and a key of two 32-bit words."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        left, right = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = right >> 32 ^ b ^ k0, right & _WORD, left >> 32 ^ d ^ k1, left & _WORD
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return a, b, c, d


def uniform(seed: int, sequence: int, position: int) -> float:
    """A uniform number in [0, 1), a multiple of 2**-53. All three arguments are in 0..2**64-1.

    The key is the seed, the counter the position and the sequence, each low word first; the first word of
    the result gives the upper 27 bits and the second the lower 26.
    """
    counter = (position & _WORD, position >> 32, sequence & _WORD, sequence >> 32)
    high, low, _, _ = philox4x32(counter, (seed & _WORD, seed >> 32))
    return ((high >> 5) * 2**26 + (low >> 6)) * 2.0**-53
