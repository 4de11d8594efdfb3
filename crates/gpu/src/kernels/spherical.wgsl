// Spherical harmonics up to degree 3, with the basis and signs of `gausset_core::sh`.
//
// Coefficients are stored in blocks of four coefficients with three channels each: three planes of vec4.

struct Coefficients {
    c0: vec3<f32>,
    c1: vec3<f32>,
    c2: vec3<f32>,
    c3: vec3<f32>,
}

fn coefficients(p0: vec4<f32>, p1: vec4<f32>, p2: vec4<f32>) -> Coefficients {
    return Coefficients(p0.xyz, vec3<f32>(p0.w, p1.xy), vec3<f32>(p1.zw, p2.x), p2.yzw);
}

/// Which of the four coefficients of a block a degree uses.
fn in_use(block: u32, degree: u32) -> vec4<bool> {
    return vec4<u32>(4u * block) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>((degree + 1u) * (degree + 1u));
}

/// `Y_0 .. Y_3` at a unit direction.
fn basis_0(d: vec3<f32>) -> vec4<f32> {
    return vec4<f32>(SH_C0, -SH_C1 * d.y, SH_C1 * d.z, -SH_C1 * d.x);
}

/// `Y_4 .. Y_7`.
fn basis_1(d: vec3<f32>) -> vec4<f32> {
    return vec4<f32>(SH_C2_0 * (d.x * d.y), SH_C2_1 * (d.y * d.z), SH_C2_2 * fma(3.0, d.z * d.z, -1.0), SH_C2_3 * (d.x * d.z));
}

/// `Y_8 .. Y_11`.
fn basis_2(d: vec3<f32>) -> vec4<f32> {
    let xx = d.x * d.x;
    let yy = d.y * d.y;
    let five_zz = 5.0 * d.z * d.z;
    return vec4<f32>(
        SH_C2_4 * (xx - yy),
        SH_C3_0 * d.y * fma(3.0, xx, -yy),
        SH_C3_1 * (d.x * d.y) * d.z,
        SH_C3_2 * d.y * (five_zz - 1.0),
    );
}

/// `Y_12 .. Y_15`.
fn basis_3(d: vec3<f32>) -> vec4<f32> {
    let xx = d.x * d.x;
    let yy = d.y * d.y;
    let five_zz = 5.0 * d.z * d.z;
    return vec4<f32>(
        SH_C3_3 * d.z * (five_zz - 3.0),
        SH_C3_4 * d.x * (five_zz - 1.0),
        SH_C3_5 * d.z * (xx - yy),
        SH_C3_6 * d.x * fma(-3.0, yy, xx),
    );
}

/// The basis of a block.
fn basis_of(block: u32, d: vec3<f32>) -> vec4<f32> {
    if (block == 0u) { return basis_0(d); }
    if (block == 1u) { return basis_1(d); }
    if (block == 2u) { return basis_2(d); }
    return basis_3(d);
}

/// `Σ_k Y_k c_k` over the coefficients of a block that are in use. Unused values are ignored.
fn colour_of(c: Coefficients, y: vec4<f32>, used: vec4<bool>) -> vec3<f32> {
    var sum = y.x * c.c0;
    if (used.y) { sum = fma(vec3<f32>(y.y), c.c1, sum); }
    if (used.z) { sum = fma(vec3<f32>(y.z), c.c2, sum); }
    if (used.w) { sum = fma(vec3<f32>(y.w), c.c3, sum); }
    return sum;
}

/// `c_k · g` for the coefficients of a block, 0 if they are not in use.
fn weights_of(c: Coefficients, g: vec3<f32>, used: vec4<bool>) -> vec4<f32> {
    let w = vec4<f32>(dot(c.c0, g), dot(c.c1, g), dot(c.c2, g), dot(c.c3, g));
    return select(vec4<f32>(0.0), w, used);
}

/// `Σ_k w_k ∂Y_k/∂(x, y, z)` over `Y_1 .. Y_3`.
fn slope_0(w: vec4<f32>) -> vec3<f32> {
    return vec3<f32>(-SH_C1 * w.w, -SH_C1 * w.y, SH_C1 * w.z);
}

/// The same over `Y_4 .. Y_7`.
fn slope_1(d: vec3<f32>, w: vec4<f32>) -> vec3<f32> {
    let a = w * vec4<f32>(SH_C2_0, SH_C2_1, 6.0 * SH_C2_2, SH_C2_3);
    return vec3<f32>(
        fma(a.x, d.y, a.w * d.z),
        fma(a.x, d.x, a.y * d.z),
        fma(a.y, d.y, fma(a.z, d.z, a.w * d.x)),
    );
}

/// The same over `Y_8 .. Y_11`.
fn slope_2(d: vec3<f32>, w: vec4<f32>) -> vec3<f32> {
    let a = w * vec4<f32>(2.0 * SH_C2_4, SH_C3_0, SH_C3_1, SH_C3_2);
    let xx_less_yy = fma(d.x, d.x, -(d.y * d.y));
    let five_zz_less_one = fma(5.0, d.z * d.z, -1.0);
    return vec3<f32>(
        a.x * d.x + a.y * (6.0 * d.x * d.y) + a.z * (d.y * d.z),
        -a.x * d.y + a.y * (3.0 * xx_less_yy) + a.z * (d.x * d.z) + a.w * five_zz_less_one,
        a.z * (d.x * d.y) + a.w * (10.0 * d.y * d.z),
    );
}

/// The same over `Y_12 .. Y_15`.
fn slope_3(d: vec3<f32>, w: vec4<f32>) -> vec3<f32> {
    let a = w * vec4<f32>(SH_C3_3, SH_C3_4, SH_C3_5, SH_C3_6);
    let xx_less_yy = fma(d.x, d.x, -(d.y * d.y));
    let five_zz_less_one = fma(5.0, d.z * d.z, -1.0);
    return vec3<f32>(
        a.y * five_zz_less_one + a.z * (2.0 * d.x * d.z) + a.w * (3.0 * xx_less_yy),
        -a.z * (2.0 * d.y * d.z) - a.w * (6.0 * d.x * d.y),
        a.x * fma(15.0, d.z * d.z, -3.0) + a.y * (10.0 * d.x * d.z) + a.z * xx_less_yy,
    );
}
