"""Speculation: tokens that may come next, and how many of them a step of the target model computes.

drafter        the protocol of drafters
rules          how a drafter draws, and how the target model accepts what it drew
draft_policy   how many draft tokens a step computes
vocabularies   the tokens of a draft model as those of its target
prompt_lookup  drafts without a model: n-grams that occurred before in the same text

The steps themselves are in `edgellm.generate.speculation`: it accepts or rejects drafts.
"""
