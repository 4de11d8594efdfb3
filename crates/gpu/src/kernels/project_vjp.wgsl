// Stages `project_vjp` and `adam`, geometry: gradients of the raw parameters from the sums of a splat, and their
// update.
//
// With Q the conic, S = Σ v d dᵀ, s = Σ v d, V as in `geometry`:
//
//     d mean2d = Q s,  d cov = ½ Q S Q,  d logit = Σv (1 - o),  H = Vᵀ (2 dcov) V,
//     dT = 2 dcov V diag(s²) Rᵀ,  dJ = dT Wᵀ,  dp from J and mean2d,  dm = Wᵀ dp + what the direction says
//     d log_scale_k = s_k² H_kk,  torque_k = H_ij (s_i² - s_j²),  dq = 2/|q| q̂ ⊗ (0, torque)
//
// In antialiased mode ln o has the additional term ½ ln(det_raw / det). Then follow regularisation, Adam, noise,
// statistics. A splat with a gradient that is not finite is not updated, and counted.

// Whether the sums contain a gradient of the depth; no training step has it.
override DEPTH: bool = false;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> view: View;
@group(0) @binding(2) var<storage, read_write> splats: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> moments1: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> moments2: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> gradients: array<vec4<f32>>;
// Plane 0: unit direction and, written here, how the splat is updated; plane 1: gradient of the mean.
@group(0) @binding(6) var<storage, read_write> directions: array<vec4<f32>>;
// Planes: id, clock, visible steps, bits of the gradient sum, bits of the largest radius.
@group(0) @binding(7) var<storage, read_write> records: array<u32>;
@group(0) @binding(8) var<storage, read> boxes: array<vec4<u32>>;
// Bias corrections by clock, then the sums of each group.
@group(0) @binding(9) var<storage, read_write> sums: array<u32>;

var<workgroup> totals: array<f32, 256>;
var<workgroup> skipped: atomic<u32>;

struct Gradient {
    mean: vec3<f32>,
    logit: f32,
    quat: vec4<f32>,
    log_scale: vec3<f32>,
    mean2d: vec2<f32>,
    radius: f32,
    // With respect to the pose: rows of the rotation, translation.
    rotation_0: vec3<f32>,
    rotation_1: vec3<f32>,
    rotation_2: vec3<f32>,
    translation: vec3<f32>,
    direction: vec3<f32>,
}

struct ShapeGradient {
    log_scale: vec3<f32>,
    quat: vec4<f32>,
}

/// The parts of H = Vᵀ (2 dcov) V from two rows of the axes V, with `d_v = 2 dcov V`.
fn shape_vjp(shape: Shape, v0: vec3<f32>, d_v0: vec3<f32>, v1: vec3<f32>, d_v1: vec3<f32>) -> ShapeGradient {
    let variance = shape.scale * shape.scale;
    let h12 = fma(v0.y, d_v0.z, v1.y * d_v1.z);
    let h02 = fma(v0.x, d_v0.z, v1.x * d_v1.z);
    let h01 = fma(v0.x, d_v0.y, v1.x * d_v1.y);
    let torque = vec3<f32>(h12, h02, h01) * (variance.yzx - variance.zxy);
    let u = shape.quat;
    let quat = 2.0 * shape.inverse_norm * vec4<f32>(
        -dot(u.yzw, torque),
        fma(u.x, torque.x, fma(u.z, torque.z, -(u.w * torque.y))),
        fma(u.x, torque.y, fma(u.w, torque.x, -(u.y * torque.z))),
        fma(u.x, torque.z, fma(u.y, torque.y, -(u.z * torque.x))),
    );
    return ShapeGradient(variance * fma(v0, d_v0, v1 * d_v1), quat);
}

fn gradient_of(i: u32, g: Geometry) -> Gradient {
    let stride = job.capacity;
    let sum_0 = gradients[i];
    let sum_1 = gradients[stride + i];
    var out: Gradient;
    let q = conic_of(g);
    let v = sum_0.x;
    let s = sum_0.yz;
    let sxx = sum_0.w;
    let sxy = sum_1.x;
    let syy = sum_1.y;
    out.mean2d = vec2<f32>(fma(q.x, s.x, q.y * s.y), fma(q.y, s.x, q.z * s.y));
    // ½ Q S Q; the off-diagonal entry counts twice, because b occurs twice in the matrix.
    let p00 = fma(q.x, sxx, q.y * sxy);
    let p01 = fma(q.x, sxy, q.y * syy);
    let p10 = fma(q.y, sxx, q.z * sxy);
    let p11 = fma(q.y, sxy, q.z * syy);
    var d_a = 0.5 * fma(p00, q.x, p01 * q.y);
    var d_b = fma(p00, q.y, p01 * q.z);
    var d_c = 0.5 * fma(p10, q.y, p11 * q.z);
    if ((job.flags & FLAG_ANTIALIASED) != 0u && g.det_raw > 0.0) {
        let inverse_raw = 1.0 / g.det_raw;
        let hv = 0.5 * v;
        d_a += hv * ((g.cov.z - LOW_PASS_VARIANCE) * inverse_raw - g.cov.z * g.inverse_det);
        d_b -= 2.0 * hv * g.cov.y * (inverse_raw - g.inverse_det);
        d_c += hv * ((g.cov.x - LOW_PASS_VARIANCE) * inverse_raw - g.cov.x * g.inverse_det);
    }
    out.logit = v * (1.0 - g.opacity_raw);

    // dcov acts on the axes V: H = Vᵀ (2 dcov) V.
    let d_v0 = fma(vec3<f32>(2.0 * d_a), g.v0, d_b * g.v1);
    let d_v1 = fma(vec3<f32>(2.0 * d_c), g.v1, d_b * g.v0);
    let shape = shape_vjp(g.shape, g.v0, d_v0, g.v1, d_v1);
    out.log_scale = shape.log_scale;
    out.quat = shape.quat;
    let variance = g.shape.scale * g.shape.scale;
    let scaled_0 = d_v0 * variance;
    let scaled_1 = d_v1 * variance;
    let d_t0 = vec3<f32>(dot(scaled_0, g.shape.r0), dot(scaled_0, g.shape.r1), dot(scaled_0, g.shape.r2));
    let d_t1 = vec3<f32>(dot(scaled_1, g.shape.r0), dot(scaled_1, g.shape.r1), dot(scaled_1, g.shape.r2));

    // Through the Jacobian. J00 = fx/z, J02 = -fx rx/z, and likewise for y.
    let w0 = view.rotation_0.xyz;
    let w1 = view.rotation_1.xyz;
    let w2 = view.rotation_2.xyz;
    let d_j00 = dot(w0, d_t0);
    let d_j02 = dot(w2, d_t0);
    let d_j11 = dot(w1, d_t1);
    let d_j12 = dot(w2, d_t1);
    let j = view.lens.xy * g.inverse_z;
    var d_z = -(g.inverse_z * (j.x * fma(-g.ratio.x, d_j02, d_j00) + j.y * fma(-g.ratio.y, d_j12, d_j11)));
    let is_free = (g.free >= view.ratio.xz) & (g.free <= view.ratio.yw);
    let d_ratio = select(vec2<f32>(0.0), -(j * vec2<f32>(d_j02, d_j12)), is_free);
    let d_xy = fma(d_ratio, vec2<f32>(g.inverse_z), out.mean2d * j);
    d_z -= g.inverse_z * dot(d_ratio, g.ratio);
    d_z -= dot(out.mean2d * j, g.free);
    if (DEPTH) { d_z += gradients[2u * stride + i].y; }
    let d_point = vec3<f32>(d_xy, d_z);
    out.direction = directions[stride + i].xyz;
    out.mean = fma(w2, vec3<f32>(d_z), fma(w1, vec3<f32>(d_xy.y), w0 * d_xy.x)) + out.direction;

    out.translation = d_point;
    out.rotation_0 = fma(vec3<f32>(d_point.x), g.mean, j.x * d_t0);
    out.rotation_1 = fma(vec3<f32>(d_point.y), g.mean, j.y * d_t1);
    out.rotation_2 = fma(vec3<f32>(d_point.z), g.mean, fma(vec3<f32>(-(j.x * g.ratio.x)), d_t0, -(j.y * g.ratio.y) * d_t1));
    let mid = 0.5 * (g.cov.x + g.cov.z);
    let spread = 0.5 * (g.cov.x - g.cov.z);
    out.radius = 3.0 * sqrt(mid + sqrt(fma(spread, spread, g.cov.y * g.cov.y)));
    return out;
}

/// Adds this step to the statistics of a visible splat: the norm of (dL/du W/2, dL/dv H/2).
fn accumulate_statistics(i: u32, mean2d: vec2<f32>, radius: f32) {
    let stride = job.capacity;
    let scaled = mean2d * 0.5 * vec2<f32>(f32(job.width), f32(job.height));
    let norm = sqrt(dot(scaled, scaled));
    // Gradients that are not finite are left out of the statistics.
    if (is_finite(norm)) { records[3u * stride + i] = bitcast<u32>(bitcast<f32>(records[3u * stride + i]) + norm); }
    records[4u * stride + i] = bitcast<u32>(max(bitcast<f32>(records[4u * stride + i]), job.downscale * radius));
    records[2u * stride + i] += 1u;
}

/// `Σ z · fade · scale` with z standard normal from (seed, step, id) (Kheradmand et al. 2024, eq. 12).
fn noise_of(i: u32, p0: vec4<f32>, p1: vec4<f32>, p2: vec4<f32>) -> vec3<f32> {
    let exponent = (sigmoid(p0.w) - job.noise_fade) * 100.0;
    // Beyond this the noise factor is below 1e-13.
    if (!(exponent < NOISE_CUTOFF)) { return vec3<f32>(0.0); }
    let words = philox(vec2<u32>(job.seed_low, job.seed_high), STREAM_NOISE, vec2<u32>(job.step_low, job.step_high), records[i]);
    let z = vec3<f32>(normals(words.x, words.y), normals(words.z, words.w).x);
    let shape = shape_of(p1, p2.xyz);
    let along = fma(shape.r2, vec3<f32>(z.z), fma(shape.r1, vec3<f32>(z.y), shape.r0 * z.x)) * shape.scale * shape.scale;
    let shift = vec3<f32>(dot(shape.r0, along), dot(shape.r1, along), dot(shape.r2, along)) * (sigmoid(-exponent) * job.noise_scale);
    return vec3<f32>(
        select(0.0, shift.x, is_finite(shift.x)),
        select(0.0, shift.y, is_finite(shift.y)),
        select(0.0, shift.z, is_finite(shift.z)),
    );
}

/// Bias corrections of a splat's next update; increments its clock in sparse mode.
fn next_corrections(i: u32) -> vec2<f32> {
    if ((job.flags & FLAG_SPARSE) == 0u) { return vec2<f32>(job.dense_first, job.dense_second); }
    let at = job.capacity + i;
    var clock = records[at];
    if (clock != 0xffffffffu) { clock += 1u; }
    records[at] = clock;
    if (clock >= BIAS_CLOCKS) { return vec2<f32>(1.0); }
    return vec2<f32>(bitcast<f32>(sums[2u * clock]), bitcast<f32>(sums[2u * clock + 1u]));
}

/// Gradient, update, noise and statistics of a splat; returns its gradient, with that of the pose.
fn update(i: u32) -> Gradient {
    let stride = job.capacity;
    let sparse = (job.flags & FLAG_SPARSE) != 0u;
    var p0 = splats[i];
    var p1 = splats[stride + i];
    var p2 = splats[2u * stride + i];
    // From the origin, in units of the contraction radius.
    let distance = clamp(length(p0.xyz) * job.inverse_contraction, 1.0, MAX_CONTRACTED_DISTANCE);
    var out: Gradient;
    let visible = boxes[i].y != 0u;
    var touched = false;
    var colour = vec3<f32>(0.0);
    if (visible) {
        let sum_2 = gradients[2u * stride + i];
        touched = sum_2.w != 0.0;
        var mean2d = vec2<f32>(0.0);
        if (touched) {
            let g = geometry_of(p0, p1, p2, view, (job.flags & FLAG_ANTIALIASED) != 0u);
            out = gradient_of(i, g);
            colour = vec3<f32>(gradients[stride + i].zw, sum_2.x);
            mean2d = out.mean2d;
        }
        if ((job.flags & FLAG_ABSOLUTE) != 0u) { mean2d = sum_2.yz * LN_2; }
        if ((job.flags & (FLAG_ABSOLUTE | FLAG_SIGNED)) != 0u) { accumulate_statistics(i, mean2d, out.radius); }
    }
    var moves = MOVES_NOT;
    if (touched || !sparse) {
        var logit = out.logit;
        var log_scale = out.log_scale;
        if (job.opacity_pull != 0.0) {
            let o = sigmoid(p0.w);
            logit += job.opacity_pull * (o * (1.0 - o));
        }
        if (job.scale_pull != 0.0) { log_scale += job.scale_pull / distance * exp(p2.xyz); }
        let finite = are_finite(vec4<f32>(out.mean, logit)) && are_finite(out.quat)
            && are_finite(vec4<f32>(log_scale, colour.x)) && is_finite(colour.y) && is_finite(colour.z);
        if (finite) {
            moves = select(MOVES_ON, MOVES, touched);
            let corrections = next_corrections(i);
            let a0 = adam(p0, moments1[i], moments2[i], vec4<f32>(out.mean, logit), vec4<f32>(vec3<f32>(job.rate_means * distance), job.rate_opacities), corrections);
            let j = stride + i;
            let a1 = adam(p1, moments1[j], moments2[j], out.quat, vec4<f32>(job.rate_quats), corrections);
            let k = 2u * stride + i;
            let a2 = adam(p2, moments1[k], moments2[k], vec4<f32>(log_scale, 0.0), vec4<f32>(vec3<f32>(job.rate_log_scales), 0.0), corrections);
            p0 = a0.parameter;
            p1 = a1.parameter;
            p2 = a2.parameter;
            splats[i] = p0;
            splats[j] = p1;
            splats[k] = p2;
            moments1[i] = a0.moment1;
            moments1[j] = a1.moment1;
            moments1[k] = a2.moment1;
            moments2[i] = a0.moment2;
            moments2[j] = a1.moment2;
            moments2[k] = a2.moment2;
        } else {
            atomicAdd(&skipped, 1u);
        }
    }
    directions[i].w = moves;
    if ((job.flags & FLAG_NOISE) != 0u) {
        splats[i] = vec4<f32>(p0.xyz + noise_of(i, p0, p1, p2) / distance, p0.w);
    }
    return out;
}

/// Offset of the sums of a workgroup: groups are counted over all pages.
fn sums_of(block: u32) -> u32 {
    return SUMS_GROUPS + SUMS_STRIDE * (job.first_splat / 256u + block);
}

/// Sums a value over the workgroup, as one of the group's sums.
fn sum_up(thread: u32, block: u32, index: u32, value: f32) {
    totals[thread] = value;
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { totals[thread] += totals[thread + reach]; }
        workgroupBarrier();
    }
    if (thread == 0u && block * 256u < job.splats) { sums[sums_of(block) + index] = bitcast<u32>(totals[0]); }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    let i = block * 256u + thread;
    if (thread == 0u) { atomicStore(&skipped, 0u); }
    workgroupBarrier();
    var g: Gradient;
    if (i < job.splats) { g = update(i); }
    if ((job.flags & FLAG_POSE) != 0u) {
        sum_up(thread, block, 0u, g.rotation_0.x);
        sum_up(thread, block, 1u, g.rotation_0.y);
        sum_up(thread, block, 2u, g.rotation_0.z);
        sum_up(thread, block, 3u, g.rotation_1.x);
        sum_up(thread, block, 4u, g.rotation_1.y);
        sum_up(thread, block, 5u, g.rotation_1.z);
        sum_up(thread, block, 6u, g.rotation_2.x);
        sum_up(thread, block, 7u, g.rotation_2.y);
        sum_up(thread, block, 8u, g.rotation_2.z);
        sum_up(thread, block, 9u, g.translation.x);
        sum_up(thread, block, 10u, g.translation.y);
        sum_up(thread, block, 11u, g.translation.z);
        sum_up(thread, block, 12u, g.direction.x);
        sum_up(thread, block, 13u, g.direction.y);
        sum_up(thread, block, 14u, g.direction.z);
    }
    workgroupBarrier();
    if (thread == 0u && block * 256u < job.splats) { sums[sums_of(block) + SUMS_SKIPPED] = atomicLoad(&skipped); }
}
