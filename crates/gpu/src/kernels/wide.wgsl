// 64-bit unsigned integers as (low, high): exact sums and products.

fn add_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn subtract_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn is_less_wide(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

/// The product of two 32-bit numbers.
fn product_wide(a: u32, b: u32) -> vec2<u32> {
    return vec2<u32>(a * b, high_product(a, b));
}

/// The product of two 64-bit numbers, lowest word first.
fn product_of_wide(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
    let low = product_wide(a.x, b.x);
    let mixed_0 = product_wide(a.x, b.y);
    let mixed_1 = product_wide(a.y, b.x);
    let high = product_wide(a.y, b.y);
    let middle = add_wide(add_wide(mixed_0, vec2<u32>(low.y, 0u)), vec2<u32>(mixed_1.x, 0u));
    let top = add_wide(add_wide(high, vec2<u32>(middle.y, 0u)), vec2<u32>(mixed_1.y, 0u));
    return vec4<u32>(low.x, middle.x, top.x, top.y);
}
