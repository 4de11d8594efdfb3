// The chain from the raw parameters of a splat to the screen, which `project` and its VJP share.
//
// EWA splatting (Zwicker et al. 2001) as in Kerbl et al. 2023, with the names of `gausset_raster`:
//
//     q̂ = q / |q|,  s = e^log_scale,  p = R m + t,  T = J R,  V = T R(q̂),  U = V diag(s),  cov = U Uᵀ,
//     det = |U_0 × U_1|² + ε (a + c + ε),  opacity after compensation = o sqrt(|U_0 × U_1|² / det)
//
// Planes of a splat: (mean, opacity logit), quaternion wxyz, (log scales, 0).

struct Shape {
    scale: vec3<f32>,
    quat: vec4<f32>,
    inverse_norm: f32,
    // Rows of R(q̂).
    r0: vec3<f32>,
    r1: vec3<f32>,
    r2: vec3<f32>,
}

fn shape_of(quat: vec4<f32>, log_scale: vec3<f32>) -> Shape {
    let inverse_norm = 1.0 / max(sqrt(dot(quat, quat)), 1e-12);
    let q = quat * inverse_norm;
    let w = q.x;
    let x = q.y;
    let y = q.z;
    let z = q.w;
    let r0 = vec3<f32>(1.0 - 2.0 * fma(y, y, z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y));
    let r1 = vec3<f32>(2.0 * (x * y + w * z), 1.0 - 2.0 * fma(x, x, z * z), 2.0 * (y * z - w * x));
    let r2 = vec3<f32>(2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * fma(x, x, y * y));
    return Shape(exp(log_scale), q, inverse_norm, r0, r1, r2);
}

struct Geometry {
    mean: vec3<f32>,
    shape: Shape,
    // Mean in camera axes.
    point: vec3<f32>,
    inverse_z: f32,
    // x/z and y/z, and the same clamped for the Jacobian.
    free: vec2<f32>,
    ratio: vec2<f32>,
    // Rows of V.
    v0: vec3<f32>,
    v1: vec3<f32>,
    // Screen covariance (a, b, c) with the low-pass variance in a and c.
    cov: vec3<f32>,
    det_raw: f32,
    inverse_det: f32,
    opacity_raw: f32,
    compensation: f32,
    mean2d: vec2<f32>,
}

fn geometry_of(p0: vec4<f32>, p1: vec4<f32>, p2: vec4<f32>, view: View, antialiased: bool) -> Geometry {
    var g: Geometry;
    g.mean = p0.xyz;
    g.point = vec3<f32>(
        dot(view.rotation_0.xyz, g.mean) + view.rotation_0.w,
        dot(view.rotation_1.xyz, g.mean) + view.rotation_1.w,
        dot(view.rotation_2.xyz, g.mean) + view.rotation_2.w,
    );
    g.inverse_z = 1.0 / g.point.z;
    g.shape = shape_of(p1, p2.xyz);
    g.free = g.point.xy * g.inverse_z;
    g.ratio = clamp(g.free, view.ratio.xz, view.ratio.yw);
    let j = view.lens.xy * g.inverse_z;
    let t0 = fma(vec3<f32>(-j.x * g.ratio.x), view.rotation_2.xyz, j.x * view.rotation_0.xyz);
    let t1 = fma(vec3<f32>(-j.y * g.ratio.y), view.rotation_2.xyz, j.y * view.rotation_1.xyz);
    // Row vectors times R(q̂).
    g.v0 = fma(vec3<f32>(t0.z), g.shape.r2, fma(vec3<f32>(t0.y), g.shape.r1, t0.x * g.shape.r0));
    g.v1 = fma(vec3<f32>(t1.z), g.shape.r2, fma(vec3<f32>(t1.y), g.shape.r1, t1.x * g.shape.r0));
    let u0 = g.v0 * g.shape.scale;
    let u1 = g.v1 * g.shape.scale;
    let a = dot(u0, u0);
    let b = dot(u0, u1);
    let c = dot(u1, u1);
    let across = cross(u0, u1);
    g.det_raw = dot(across, across);
    let det = fma(LOW_PASS_VARIANCE, a + c + LOW_PASS_VARIANCE, g.det_raw);
    g.inverse_det = 1.0 / det;
    g.cov = vec3<f32>(a + LOW_PASS_VARIANCE, b, c + LOW_PASS_VARIANCE);
    g.opacity_raw = sigmoid(p0.w);
    g.compensation = 1.0;
    if (antialiased) { g.compensation = sqrt(g.det_raw * g.inverse_det); }
    g.mean2d = fma(view.lens.xy, g.free, view.lens.zw);
    return g;
}

/// Inverse screen covariance (A, B, C) = (c, -b, a) / det.
fn conic_of(g: Geometry) -> vec3<f32> {
    return vec3<f32>(g.cov.z, -g.cov.y, g.cov.x) * g.inverse_det;
}

struct Direction {
    unit: vec3<f32>,
    inverse_length: f32,
}

/// From the camera centre to a mean.
fn direction_to(mean: vec3<f32>, origin: vec3<f32>) -> Direction {
    let d = mean - origin;
    let inverse_length = 1.0 / sqrt(max(dot(d, d), 1e-30));
    return Direction(d * inverse_length, inverse_length);
}
