// The bytes of a tensor, sixteen at a time.

@group(0) @binding(BINDING_WEIGHTS) var<storage, read> WEIGHTS: array<vec4<u32>>;
