
// The 32 bytes from an even offset on, in three loads.
fn bytes_WEIGHTS(at: u32) -> Bytes {
    let i = at / 16u;
    return shifted(WEIGHTS[i], WEIGHTS[i + 1u], WEIGHTS[i + 2u], at);
}

// The 16 bytes from an even offset on, in two loads.
fn sixteen_WEIGHTS(at: u32) -> vec4<u32> {
    let i = at / 16u;
    return shifted(WEIGHTS[i], WEIGHTS[i + 1u], vec4<u32>(), at).first;
}

// The two bytes at an even place, and zeros or what is behind them.
fn two_WEIGHTS(at: u32) -> u32 {
    return WEIGHTS[at / 16u][at / 4u % 4u] >> (8u * (at % 4u));
}

fn half_WEIGHTS(at: u32) -> f32 {
    return unpack2x16float(two_WEIGHTS(at)).x;
}
