"""`edgellm bench`: speed of a model on this machine, next to the machine's limits and, on request, to llama.cpp.

options         what is measured: prompt tokens, decode steps, depth, sequences, rounds
setup           opens the model, the baseline and the microbenchmarks, and warms them up
rounds          the rounds: edgellm and the baseline take turns, between measurements of the machine
workload        the timed work, the same for both: a prefill, then decode steps
baseline        llama.cpp, in a child process; worker is that process
cold_start      time to first token of a new process
machine_limits  memory bandwidth and int8 peak in each round
devices         what each device did, when a GPU takes part
drafting        replies with drafts and without, with --draft; draft_replies are those
serving         many requests at once, with --serve and --clients
results, report the measured times, and the figures that `--json` prints
"""
