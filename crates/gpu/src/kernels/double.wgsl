// Non-negative numbers with 53 bits, rounded to nearest, ties to even: reproduces decisions that the host makes in f64.
// A number is `mantissa 2^exponent`; the highest bit of the mantissa is bit 52, or the mantissa is 0.

struct Double {
    mantissa: vec2<u32>,
    exponent: i32,
}

/// `n 2^exponent` rounded; if bits were lost below, the lowest bit of `n` has to be set.
fn rounded(n: vec2<u32>, exponent: i32) -> Double {
    if (n.x == 0u && n.y == 0u) { return Double(n, 0); }
    var top = i32(firstLeadingBit(n.x));
    if (n.y != 0u) { top = 32 + i32(firstLeadingBit(n.y)); }
    if (top <= 52) { return Double(shifted_up(n, u32(52 - top)), exponent - (52 - top)); }
    // 1 to 11 bits too many.
    let excess = u32(top - 52);
    let rest = n.x & ((1u << excess) - 1u);
    let half = 1u << (excess - 1u);
    var kept = vec2<u32>((n.x >> excess) | (n.y << (32u - excess)), n.y >> excess);
    if (rest > half || (rest == half && (kept.x & 1u) == 1u)) { kept = add_wide(kept, vec2<u32>(1u, 0u)); }
    // Rounded up to the next power of two.
    if ((kept.y >> 21u) != 0u) { return Double(vec2<u32>(0u, 1u << 20u), exponent + i32(excess) + 1); }
    return Double(kept, exponent + i32(excess));
}

/// Shifts up by less than 64.
fn shifted_up(n: vec2<u32>, by: u32) -> vec2<u32> {
    if (by == 0u) { return n; }
    if (by >= 32u) { return vec2<u32>(0u, n.x << (by - 32u)); }
    return vec2<u32>(n.x << by, (n.y << by) | (n.x >> (32u - by)));
}

fn double_of(n: u32) -> Double {
    return rounded(vec2<u32>(n, 0u), 0);
}

/// A positive f64 of normal size, or 0, from its bits.
fn double_of_bits(low: u32, high: u32) -> Double {
    if (low == 0u && high == 0u) { return Double(vec2<u32>(0u), 0); }
    return Double(vec2<u32>(low, (high & 0xfffffu) | 0x100000u), i32((high >> 20u) & 0x7ffu) - 1075);
}

fn product(a: Double, b: Double) -> Double {
    // The highest bits are bit 63: the upper half of the product has at least 63 bits.
    let words = product_of_wide(shifted_up(a.mantissa, 11u), shifted_up(b.mantissa, 11u));
    let lost = select(0u, 1u, (words.x | words.y) != 0u);
    return rounded(vec2<u32>(words.z | lost, words.w), a.exponent + b.exponent - 22 + 64);
}

/// `a / b`, b not 0: one bit of the quotient per round.
fn quotient(a: Double, b: Double) -> Double {
    var rest = a.mantissa;
    var bits = vec2<u32>(0u);
    for (var round = 0u; round < 57u; round++) {
        bits = shifted_up(bits, 1u);
        if (!is_less_wide(rest, b.mantissa)) {
            rest = subtract_wide(rest, b.mantissa);
            bits.x |= 1u;
        }
        rest = shifted_up(rest, 1u);
    }
    let lost = select(0u, 1u, (rest.x | rest.y) != 0u);
    return rounded(vec2<u32>(bits.x | lost, bits.y), a.exponent - b.exponent - 56);
}

/// The magnitude of an f32 as 24 bits and an exponent.
fn parts_of(bits: u32) -> vec2<i32> {
    let fraction = bits & 0x7fffffu;
    let exponent = i32((bits >> 23u) & 0xffu);
    if (exponent != 0) { return vec2<i32>(i32(fraction | 0x800000u), exponent - 150); }
    if (fraction == 0u) { return vec2<i32>(0, -1000); }
    let up = 23u - firstLeadingBit(fraction);
    return vec2<i32>(i32(fraction << up), -149 - i32(up));
}

/// `a - b` of two finite f32 with `a >= b`, from their bits.
fn difference(a: u32, b: u32) -> Double {
    var large = parts_of(a);
    var small = parts_of(b);
    if ((a & 0x7fffffffu) < (b & 0x7fffffffu)) {
        large = parts_of(b);
        small = parts_of(a);
    }
    if (large.x == 0) { return Double(vec2<u32>(0u), 0); }
    let gap = u32(large.y - small.y);
    let one = vec2<u32>(0u, u32(large.x) << 6u);
    let whole = u32(small.x) << 6u;
    var other = vec2<u32>(0u, whole);
    if (gap >= 64u) {
        other = vec2<u32>(select(0u, 1u, whole != 0u), 0u);
    } else if (gap >= 32u) {
        let lost = whole & ((1u << (gap - 32u)) - 1u);
        other = vec2<u32>((whole >> (gap - 32u)) | select(0u, 1u, lost != 0u), 0u);
    } else if (gap > 0u) {
        other = vec2<u32>(whole << (32u - gap), whole >> gap);
    }
    let together = ((a ^ b) >> 31u) == 1u;
    if (together) { return rounded(add_wide(one, other), large.y - 38); }
    return rounded(subtract_wide(one, other), large.y - 38);
}

/// The integer part, at most 2^32 - 1; `halves` adds one half first.
fn whole_of(a: Double, halves: bool) -> u32 {
    if ((a.mantissa.x | a.mantissa.y) == 0u) { return 0u; }
    if (a.exponent > -21) { return 0xffffffffu; }
    let down = u32(-a.exponent);
    if (down > 53u) { return 0u; }
    var whole = 0u;
    if (down >= 32u) {
        if (down < 53u) { whole = a.mantissa.y >> (down - 32u); }
    } else {
        whole = (a.mantissa.y << (32u - down)) | (a.mantissa.x >> down);
    }
    if (!halves) { return whole; }
    let at = down - 1u;
    var bit = 0u;
    if (at >= 32u) { bit = (a.mantissa.y >> (at - 32u)) & 1u; } else { bit = (a.mantissa.x >> at) & 1u; }
    return select(whole + bit, 0xffffffffu, whole == 0xffffffffu);
}
