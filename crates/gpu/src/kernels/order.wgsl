// Comparisons of f32 by their bits: exact on every device, however it handles NaN, infinities and subnormal numbers.

fn are_finite_bits(v: vec4<u32>) -> bool {
    let exponents = v & vec4<u32>(0x7f800000u);
    return all(exponents != vec4<u32>(0x7f800000u));
}

/// An integer that increases with the f32 of these bits; equal for both zeros.
fn rank_of(bits: u32) -> u32 {
    if ((bits & 0x7fffffffu) == 0u) { return 0x80000000u; }
    return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}

/// `a > b`; false if one is NaN.
fn is_above(a: u32, b: u32) -> bool {
    let numbers = (a & 0x7fffffffu) <= 0x7f800000u && (b & 0x7fffffffu) <= 0x7f800000u;
    return numbers && rank_of(a) > rank_of(b);
}

fn rank_of_longest(log_scales: vec3<u32>) -> u32 {
    return max(max(rank_of(log_scales.x), rank_of(log_scales.y)), rank_of(log_scales.z));
}
/// The bits of the f32 of a rank.
fn bits_of_rank(rank: u32) -> u32 {
    return select(~rank, rank & 0x7fffffffu, (rank >> 31u) == 1u);
}
