"""The kernels of recurrent layers, whose state of a sequence goes from token to token.

state          the addresses of the states before a segment and behind its rows
conv, taps     causal convolutions over time
delta_inputs   what the gated delta rule reads: normed q and k, gates
delta_rule     the gated delta rule
channel_delta  the delta rule with a decay for each channel of keys, and what it reads
mamba          Mamba-2: its gates and its scan
selective_scan Mamba-1: its scan
gated_norm     the norm of each group of values and the gate by z
split_gate     heads of q and their gates, which some models project together
"""
