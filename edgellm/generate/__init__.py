"""Text generation with an open model, from token ids to text with stats.

session         one engine shared by many requests: prefill, decode and fork
batching        one batch for all requests that wait
prompt_segment  the segment of a prompt, with marks where a sequence can go back to
request         a prompt, and what its reply is computed with
decoding        the token loop: prefill a prompt, then sample and decode token after token
beam_search     the loop of a beam search, whose beams are forks; `beams`: which of them run on, and which have ended
token_chooser   the next token: one that a guide forces, or one that the sampler draws
speculation     speculative decoding: draft tokens are computed, accepted or rejected (drafters: `edgellm.speculation`)
prefix_cache    sequences for prompts, which begin with what was computed for any other
prefix_stats    how much of all prompts was cached
chat_replies    the replies of a chat, to any messages
chat_templates  the templates of a chat; `prompt_builder` makes prompts in one
overflow        prompts of conversations that are longer than the context
generation      the running generation that a caller iterates over and cancels
at_once         several generations at once
async_generation a generation for asyncio
reply_content   what a reply has so far: its text, its calls, and the answer of one that is held to a form
text_assembler  tokens to text: detokenizer, stop strings, finish reason, log-probabilities
results         what a caller gets: a token, a completion
logprobs        log-probabilities of a sampled token and of the most likely ones
stop_strings    stop strings across token borders
timing, stats   the timer of a request, and the figures made of it
guided_stats    how much probability a guide takes from the tokens that it forbids
generator       starts generations for an open model
engines         opens the engine that the options name
all_logits      the logits of every position of a text

Sampling itself is in `edgellm.sampling`; detokenizing and chat templates are in `edgellm.text`.
"""
