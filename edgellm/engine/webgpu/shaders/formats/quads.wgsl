// The bytes of a tensor whose blocks are whole vec4 of words.

@group(0) @binding(BINDING_WEIGHTS) var<storage, read> WEIGHTS: array<vec4<u32>>;

