"""Sampling: from logits to the next token.

sampler         the stages that turn logits into a distribution
gumbel          the draw of a token from a distribution
penalty_window  counts of the last tokens, for the repetition penalties
top_k           the largest of many scores, in order
philox          random numbers that depend on seed, sequence and position alone
"""
