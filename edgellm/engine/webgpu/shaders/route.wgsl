// The experts of each row by the logits of its router, a workgroup for each row: the USED largest keys, ties by index.
//
// Scores are the softmax or the sigmoid of the logits times LOGIT_SCALE. Keys are scores + bias, or the logits
// where only their order counts. With groups, the keys of all groups of experts but the best are left out; a group's
// score is the sum of its GROUP_SCORES largest keys. The weight of an expert is its score, divided by the sum of those
// chosen with NORMALIZED, times SCALE, times its own scale.
//
//     logits [rows][EXPERTS];  bias, expert_scales [EXPERTS];  chosen, weights [rows][USED], largest key first

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> expert_scales: array<f32>;
@group(0) @binding(3) var<storage, read_write> chosen: array<u32>;
@group(0) @binding(4) var<storage, read_write> weights: array<f32>;

const SIZE: u32 = EXPERTS / GROUPS;                     // experts of a group
const LOWEST: f32 = -3.4028234e38;

var<workgroup> scores: array<f32, EXPERTS>;
var<workgroup> keys: array<f32, EXPERTS>;
var<workgroup> group_keys: array<f32, GROUPS>;
var<workgroup> used_scores: array<f32, USED>;

// How many of the keys from `first` to `end` - 1 come before that of expert e.
fn rank(e: u32, first: u32, end: u32) -> u32 {
    let key = keys[e];
    var before = 0u;
    for (var i = first; i < end; i++) {
        before += u32(keys[i] > key || (keys[i] == key && i < e));
    }
    return before;
}

fn group_rank(own: u32) -> u32 {
    let key = group_keys[own];
    var before = 0u;
    for (var i = 0u; i < GROUPS; i++) {
        before += u32(group_keys[i] > key || (group_keys[i] == key && i < own));
    }
    return before;
}

// Scores of all experts, from logits in `keys`.
fn score() {
    var largest = LOWEST;
    if (SOFTMAX) {
        for (var e = 0u; e < EXPERTS; e++) {
            largest = max(largest, keys[e]);
        }
    }
    for (var e = lane; e < EXPERTS; e += LANES) {
        if (SOFTMAX) {
            scores[e] = exp(keys[e] - largest);
        } else {
            scores[e] = 1.0 / (1.0 + exp(min(-keys[e], 80.0)));     // see f_silu.wgsl
        }
    }
    workgroupBarrier();
    var sum = 1.0;
    if (SOFTMAX) {
        sum = 0.0;
        for (var e = 0u; e < EXPERTS; e++) {
            sum += scores[e];
        }
    }
    workgroupBarrier();
    for (var e = lane; e < EXPERTS; e += LANES) {
        scores[e] /= sum;
        if (BIASED) {
            keys[e] = scores[e] + bias[e];
        } else if (GROUPS > USED_GROUPS) {
            keys[e] = scores[e];
        }
    }
    workgroupBarrier();
}

// Make the keys of all groups but the best the lowest.
fn keep_groups() {
    for (var own = lane; own < GROUPS; own += LANES) {
        var sum = 0.0;
        for (var e = own * SIZE; e < (own + 1u) * SIZE; e++) {
            if (rank(e, own * SIZE, (own + 1u) * SIZE) < GROUP_SCORES) {
                sum += keys[e];
            }
        }
        group_keys[own] = sum;
    }
    workgroupBarrier();
    for (var e = lane; e < EXPERTS; e += LANES) {
        if (group_rank(e / SIZE) >= USED_GROUPS) {
            keys[e] = LOWEST;
        }
    }
    workgroupBarrier();
}

fn kernel(group: vec3<u32>) {
    for (var e = lane; e < EXPERTS; e += LANES) {
        keys[e] = LOGIT_SCALE * logits[group.x * EXPERTS + e];
    }
    workgroupBarrier();
    score();
    if (GROUPS > USED_GROUPS) {
        keep_groups();
    }
    for (var e = lane; e < EXPERTS; e += LANES) {
        let place = rank(e, 0u, EXPERTS);
        if (place < USED) {
            chosen[group.x * USED + place] = e;
            used_scores[place] = scores[e];
        }
    }
    workgroupBarrier();
    var sum = 1.0;
    if (NORMALIZED) {
        sum = 1e-20;
        for (var i = 0u; i < USED; i++) {
            sum += used_scores[i];
        }
    }
    for (var e = lane; e < EXPERTS; e += LANES) {
        let place = rank(e, 0u, EXPERTS);
        if (place < USED) {
            var weight = SCALE * scores[e] / sum;
            if (SCALED) {
                weight *= expert_scales[e];
            }
            weights[group.x * USED + place] = weight;
        }
    }
}
