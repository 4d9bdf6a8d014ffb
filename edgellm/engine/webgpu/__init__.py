"""GPUs through WebGPU: Metal, Vulkan and DX12 from one pip wheel, `wgpu`, which is imported when a GPU is asked for."""
