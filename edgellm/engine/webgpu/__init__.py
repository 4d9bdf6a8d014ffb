"""GPUs through WebGPU: Metal, Vulkan and DX12 from one pip wheel, `wgpu`, which is imported when a GPU is asked for.

From what is asked for to what runs, top to bottom:

    backend                       what the engine, the plan and the list of devices ask of this folder
    presence, adapters, memory    is there a GPU, which ones, and how much of their memory is free
    offload_plan, fit, opening    which blocks it can compute and has room for
    device                        those blocks as a `Device`: a batch goes in, hidden states or logits come out
    lowering, matmul, shaders     blocks as dispatches of the WGSL files in `shaders`
    blocks, weights, cells        what is kept there: tensors in pieces, KV pages
    scratch, rows                 what a batch needs there: activations, its rows
    gpu, commands, connection     wgpu itself: buffers, submissions, pipelines
    faults                        what goes wrong there, as a DeviceFault

Only `backend` and `presence` run in the process of the engine, and what `backend` calls to plan; the rest in that of the GPU.
"""
