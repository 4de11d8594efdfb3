// The update of raw parameters (Kingma and Ba 2015), four at a time.
//
//     m = 0.9 m + 0.1 g,  v = 0.999 v + 0.001 g²,  p -= rate (m c1) / (sqrt(v c2) + 1e-15)
//
// c1 = 1/(1 - 0.9^t) and c2 = 1/(1 - 0.999^t) come from a table computed in f64: in f32 they would be off by 1e-5 at
// the start.

struct Adam {
    parameter: vec4<f32>,
    moment1: vec4<f32>,
    moment2: vec4<f32>,
}

fn adam(p: vec4<f32>, m: vec4<f32>, v: vec4<f32>, g: vec4<f32>, rate: vec4<f32>, corrections: vec2<f32>) -> Adam {
    let m1 = fma(vec4<f32>(ADAM_BETA1), m, ADAM_REST1 * g);
    let v1 = fma(vec4<f32>(ADAM_BETA2), v, ADAM_REST2 * g * g);
    // Far too small to have an effect next to epsilon: further decay would end in subnormal numbers.
    let m2 = select(vec4<f32>(0.0), m1, abs(m1) >= vec4<f32>(MOMENT_FLOOR));
    let v2 = select(vec4<f32>(0.0), v1, v1 >= vec4<f32>(MOMENT_FLOOR));
    let next = p - rate * (m2 * corrections.x) / (sqrt(v2 * corrections.y) + vec4<f32>(ADAM_EPSILON));
    return Adam(next, m2, v2);
}
