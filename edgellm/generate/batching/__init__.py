"""Continuous batching: requests of any thread share the batches of one engine.

batcher      who has the turn computes a batch for all requests that wait
executor     what a batch does: drafts, then rows; each part alone where that fails
computation  tokens that a request waits for, computed batch by batch
schedule     which tokens the next batch computes: steps of replies, then parts of prompts
arrivals     which requests are about to ask for their next token
admission    which requests wait when memory is short for all
fair_lock    the queue of requests that wait for the engine
cancel_flag  how a request is cancelled from another thread

The times of batches, by which the schedule decides, are in `edgellm.engine`: `step_times`, `prompt_times`.
"""
