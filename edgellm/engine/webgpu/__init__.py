"""GPUs through WebGPU: Metal, Vulkan and DX12 from one pip wheel, `wgpu`, which is imported when a GPU is asked for.

From what is asked for to what runs, top to bottom:

    presence, adapters, memory    is there a GPU, which ones, and how much of their memory is free
    fit, opening                  which blocks it can compute and has room for
    device                        those blocks as a `Device`: a batch goes in, hidden states or logits come out
    lowering, products, shaders   blocks as dispatches of the WGSL files in `shaders`
    blocks, weights, cells        what is kept there: tensors in pieces, KV pages
    scratch, rows                 what a batch needs there: activations, its rows
    gpu, commands, connection     wgpu itself: buffers, submissions, pipelines; what goes wrong is a DeviceFault
"""
