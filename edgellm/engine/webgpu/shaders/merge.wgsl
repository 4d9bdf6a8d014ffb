// Merge the sums of the spans of a sequence, in order, and divide by the total, a workgroup for each head of each row.
//
//     partials [rows][spans][HEADS][VEC4S + 1] of vec4: the sums of a span, then its maximum score and its total
//     mixed  [rows][MIXED_STRIDE]
//     sinks  [HEADS]: with SINKS, one more score of each head, without a value

@group(0) @binding(0) var<storage, read> batch: Batch;
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> mixed: array<f32>;
@group(0) @binding(3) var<storage, read> sinks: array<f32>;

const VEC4S: u32 = HEAD_DIM / 4u;

fn kernel(group: vec3<u32>) {
    let h = group.x;
    let t = group.y;
    for (var d4 = lane; d4 < VEC4S; d4 += LANES) {
        var top = -1e30;
        var total = 0.0;
        var sum = vec4<f32>();
        for (var s = 0u; s < batch.spans; s++) {
            let at = ((t * batch.spans + s) * HEADS + h) * (VEC4S + 1u);
            let span = partials[at + VEC4S];
            let higher = max(top, span.x);
            total = total * exp(top - higher) + span.y * exp(span.x - higher);
            sum = sum * exp(top - higher) + partials[at + d4] * exp(span.x - higher);
            top = higher;
        }
        if (SINKS) {
            let higher = max(top, sinks[h]);
            total = total * exp(top - higher) + exp(sinks[h] - higher);
            sum = sum * exp(top - higher);
        }
        let v = sum / total;
        for (var c = 0u; c < 4u; c++) {
            mixed[t * MIXED_STRIDE + h * HEAD_DIM + 4u * d4 + c] = v[c];
        }
    }
}
