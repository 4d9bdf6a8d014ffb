"""Speculation: tokens that may come next, and how many of them a step of the target model computes.

drafter          the protocol of drafters
sources          the names of what proposes drafts
rules            how a drafter draws, and how the target model accepts what it drew
prompt_lookup    drafts without a model: n-grams that occurred before in the same text
model_drafter    drafts that a smaller model computes
head_drafter     drafts of a head that reads what its target computed; `head_source` is what replies share
head_choice      the head that an option names, or that of the target's file; `head_file` is a file of its own
draft_chain      draws drafts as the target will draw its text
vocabularies     the tokens of a draft model as those of its target
auto_draft       the draft model that an option names, or the best one on this machine
draft_file       the file of a draft model, checked against its target
draft_sizes      what drafts reads for a token, and its share of a limited memory
draft_model      its engine, opened in the background
draft_plan       the plan of a model with its draft model or head
computed_source  an engine that drafts for all replies of a session, and how long that takes
drafting         the computed drafts of one reply, from round to round
rounds           a round of passes: drafts for all replies of a batch
step_plan        what is planned for a step
draft_policy     from which source a step has drafts, and how many
acceptance       how often drafts are right
account          how many steps drafts may lose, so that they never make a reply much slower
session_drafts   what the replies of a session share of all that

The steps themselves are in `edgellm.generate.speculative_decoder`: it accepts or rejects drafts.
"""
