"""The engine: batches of tokens in, logits out.

protocol           the protocol of an engine and of a sequence; segments, checks of a batch
native_engine      edgellm's own engine: opens a model, falls back from the GPU to the CPU
head_engine        the engine of a head that drafts for a model; `head_sequence` is its state for one sequence
target_reader      computes a head that reads the target's keys and values; `last_states` is what it keeps
follower           what follows a sequence of the target, to keep the features that its head reads
feature_encoder    from hidden states of the target to what an EAGLE-3 head reads
model_runner       a batch goes through the devices, in the order of the placement
batch              a batch of rows, as kernels and GPUs read it
outputs            what a batch gives: logits, hidden states, sums of squares of inputs of matrices
limits             the largest context and batch of a model
step_times         how long batches of decode rows take, measured
prompt_times       how long tokens of prompts take, measured

Programs (what the CPU runs)
build_program      from a description to a program: which ops a layer has
attention_ops      the ops of an attention layer, and where its keys and values lie
entry_ops          those with which a head begins
per_layer_ops      those of Gemma 3n and Gemma 4 beside attention and feed-forward
op_writer          appends single ops: matmul, bias, activation, …; `norm_ops` those of norms
activations        the buffers between ops
program            the result: ops and buffers, without addresses

Memory
kv_pages           ids and reference counts of KV pages, page tables
paged_sequence     sequences over these, with checkpoints where there are windows
host_kv_pages      KV pages in the memory of the CPU (those of a GPU are in `webgpu.kv_pages`)
position_tables    cosines and sines of RoPE, and factors of queries, for all positions
budget             limits of memory, checked before it is taken
memory             allocation of aligned memory in huge pages

Devices
device             the protocol of a device
cpu                the CPU: kernels, buffers, records of ops
threadpool         the threads that run a program
c_functions        addresses of system functions that waiting kernels call
adaptive_threads   how many of them decode, beside other busy programs

GPU offload
placement          which device computes which block of a model
offload            the request: how many layers on which GPU
backends           the protocol of a GPU backend, and the plan that it makes
open_gpu           from a request to an open GPU, with fewer layers if its memory is full
gpu_process        the GPU in a child process, as the engine sees it
gpu_worker         that child process
webgpu             the WebGPU backend; `webgpu.offload_plan` decides how many layers fit
"""
