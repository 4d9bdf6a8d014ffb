"""The WebGPU backend: Metal, Vulkan and DX12 through the package `wgpu`, which is imported when a GPU is asked for.

backend                       what the engine, the plan and the list of devices call
detection, adapters, memory   whether there is a GPU, the list of them, and their free memory
offload_plan, obstacles, fit  which blocks a GPU can compute, and how many layers fit its memory
open_device, device           the blocks of a plan as a `Device`: a batch in, hidden states or logits out
lowering, attention, experts  from blocks, from attention and from mixtures of experts to dispatches
expert_matmul                 dispatches of products of the slots of experts
matmul, row_ops               dispatches of matrix products, and of norms and activations
shaders                       the source of each dispatch, from the WGSL files in the folder `shaders`
offloaded, blocks             the blocks of a model that are on the GPU, and their tensors there
expert_blocks, expert_scratch the same of mixtures of experts, and their activations
expert_choice                 whole layers, or layers without experts: which takes less time by reckoning
weights, kv_pages             what the GPU keeps: tensors in slices, KV pages
scratch, batch_layout         what a batch needs there: activations, its rows
context, commands, connection wgpu itself: buffers, submissions, pipelines
faults                        errors of wgpu as DeviceFault

`backend`, `detection`, and the modules that `backend` calls to plan run in the process of the engine; all others run in
the process of the GPU.
"""
