// Sums over the LANES threads of a workgroup: a tree in workgroup memory, which every adapter has.

var<private> lane: u32;
var<workgroup> partial: array<vec4<f32>, LANES>;

// The sum of every lane's v, in all lanes.
fn sum_lanes(v: vec4<f32>) -> vec4<f32> {
    workgroupBarrier();     // an earlier sum may still be read
    partial[lane] = v;
    for (var step = LANES / 2u; step > 0u; step /= 2u) {
        workgroupBarrier();
        if (lane < step) {
            partial[lane] += partial[lane + step];
        }
    }
    workgroupBarrier();
    return partial[0];
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    lane = index;
    kernel(group);
}
