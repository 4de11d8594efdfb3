// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011), the same words as `gausset_compute::rng`.

/// High half of a product of 32-bit numbers.
fn high_product(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let m = ah * bl + ((al * bl) >> 16u);
    let n = al * bh + (m & 0xffffu);
    return ah * bh + (m >> 16u) + (n >> 16u);
}

/// Four words for (seed, stream, step, index).
fn philox(seed: vec2<u32>, stream: u32, step: vec2<u32>, index: u32) -> vec4<u32> {
    var c = vec4<u32>(index, step.x, (step.y & 0xffffu) | (stream << 16u), 0u);
    var k = seed;
    for (var round = 0u; round < 10u; round++) {
        c = vec4<u32>(
            high_product(0xCD9E8D57u, c.z) ^ c.y ^ k.x,
            0xCD9E8D57u * c.z,
            high_product(0xD2511F53u, c.x) ^ c.w ^ k.y,
            0xD2511F53u * c.x,
        );
        k += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

/// Converts a word to a number in [0, 1) with 24 bits.
fn uniform_number(word: u32) -> f32 {
    return f32(word >> 8u) * (1.0 / 16777216.0);
}
