// Standard normal numbers from random words.

/// sin and cos of an angle in turns: reduction by quadrant, then polynomials on an eighth of a turn.
fn sin_cos_turns(turns: f32) -> vec2<f32> {
    let quadrant = floor(turns * 4.0 + 0.5);
    let r = (turns - quadrant * 0.25) * TAU;
    let r2 = r * r;
    let s = r * fma(fma(fma(fma(1.0 / 362880.0, r2, -1.0 / 5040.0), r2, 1.0 / 120.0), r2, -1.0 / 6.0), r2, 1.0);
    let c = fma(fma(fma(fma(1.0 / 40320.0, r2, -1.0 / 720.0), r2, 1.0 / 24.0), r2, -0.5), r2, 1.0);
    let q = u32(quadrant) & 3u;
    if (q == 0u) { return vec2<f32>(s, c); }
    if (q == 1u) { return vec2<f32>(c, -s); }
    if (q == 2u) { return vec2<f32>(-s, -c); }
    return vec2<f32>(-c, s);
}

/// Box-Muller on two words.
fn normals(a: u32, b: u32) -> vec2<f32> {
    let radius = sqrt(max(-2.0 * log(1.0 - uniform_number(a)), 0.0));
    return radius * sin_cos_turns(uniform_number(b)).yx;
}
