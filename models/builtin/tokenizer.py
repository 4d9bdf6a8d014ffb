"""The tokenizer: byte-level BPE, its 2048 tokens learned from the training texts."""

from itertools import islice

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from conversations import END, START, Conversations

TEXTS = 40_000


def make_tokenizer(size: int, seed: int) -> Tokenizer:
    """Train the tokenizer: GPT-2's pre-tokenizer, with the two tokens of the chat template first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = (span.text for spans in islice(Conversations(seed), TEXTS) for span in spans)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[START, END], initial_alphabet=alphabet, min_frequency=2, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    assert tokenizer.get_vocab_size() == size
    return tokenizer
