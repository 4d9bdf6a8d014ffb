// Sums over the LANES threads of a workgroup: subgroups add up their lanes in registers, then a barrier joins the sums.

var<private> lane: u32;
var<private> subgroup: u32;
var<private> subgroups: u32;
var<private> subgroup_lane: u32;
var<workgroup> partial: array<vec4<f32>, LANES>;

// The sum of every lane's v, in all lanes.
fn sum_lanes(v: vec4<f32>) -> vec4<f32> {
    let part = subgroupAdd(v);
    workgroupBarrier();     // an earlier sum may still be read
    if (subgroup_lane == 0u) {
        partial[subgroup] = part;
    }
    workgroupBarrier();
    var total = partial[0];
    for (var i = 1u; i < subgroups; i++) {
        total += partial[i];
    }
    return total;
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
    @builtin(subgroup_id) own_subgroup: u32,
    @builtin(num_subgroups) all_subgroups: u32,
    @builtin(subgroup_invocation_id) own_lane: u32,
) {
    lane = index;
    subgroup = own_subgroup;
    subgroups = all_subgroups;
    subgroup_lane = own_lane;
    kernel(group);
}
