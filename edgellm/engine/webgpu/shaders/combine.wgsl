// x[t] += FACTOR · Σ_j weights[t][j] · (the result of slot j of row t), a workgroup for LANES vec4s of a row.
//
//     PLANNED   slots have the places that plan.wgsl gives them; otherwise those of a row follow each other
//
//     weights, slots [rows][USED];  y [slots][X_VEC4S], x [rows][X_VEC4S] of vec4

@group(0) @binding(0) var<storage, read> weights: array<f32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;

fn kernel(group: vec3<u32>) {
    let k = group.x * LANES + lane;
    if (k < X_VEC4S) {
        var sum = vec4<f32>();
        for (var choice = group.y * USED; choice < (group.y + 1u) * USED; choice++) {
            var slot = choice;
            if (PLANNED) {
                slot = slots[choice];
            }
            sum += weights[choice] * y[slot * X_VEC4S + k];
        }
        x[group.y * X_VEC4S + k] += FACTOR * sum;
    }
}
