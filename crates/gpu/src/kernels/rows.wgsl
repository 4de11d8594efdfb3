// The rows of corrections that a step names: their gradients from sums over tiles and groups, Adam, the pull towards 0. One workgroup. A row whose gradient is not finite is left.
//
// Pose (fixtures, section 5): with the sums G of dL/d[R|t] over the splats, A = G_R Rᵀ + G_t tᵀ, the gradient with
// respect to a left twist is (G_t, A_21 - A_12, A_02 - A_20, A_10 - A_01). With respect to the twist itself, J_lᵀ of
// it, by its series; with respect to the twist of a rig, the transposed adjoint of that.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> view: View;
@group(0) @binding(2) var<storage, read_write> corrections: array<u32>;
@group(0) @binding(3) var<storage, read> sums: array<u32>;
@group(0) @binding(4) var<storage, read> tile_sums: array<f32>;

var<workgroup> totals: array<f32, 256>;
var<workgroup> gradient: array<f32, 32>;

/// A value of the sum over all tiles; the same in each thread.
fn over_tiles(thread: u32, index: u32) -> f32 {
    var sum = 0.0;
    for (var tile = thread; tile < job.tiles; tile += 256u) { sum += tile_sums[TILE_SUMS * tile + index]; }
    return over_threads(thread, sum);
}

fn over_groups(thread: u32, index: u32) -> f32 {
    let groups = (job.splats + 255u) / 256u;
    var sum = 0.0;
    for (var group = thread; group < groups; group += 256u) {
        sum += bitcast<f32>(sums[SUMS_GROUPS + SUMS_STRIDE * group + index]);
    }
    return over_threads(thread, sum);
}

fn over_threads(thread: u32, value: f32) -> f32 {
    workgroupBarrier();
    totals[thread] = value;
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { totals[thread] += totals[thread + reach]; }
        workgroupBarrier();
    }
    return totals[0];
}

fn value_at(at: u32) -> f32 {
    return bitcast<f32>(corrections[at]);
}

/// Adam on a row of so many values with the gradient in `gradient`. `row` = places of values, moments and clock;
/// `rates` = rate of the first values, rate from `split` on, decay, whether the row moves.
fn move_row(thread: u32, row: vec4<u32>, rates: vec4<f32>, width: u32, split: u32) {
    workgroupBarrier();
    var finite = true;
    for (var k = 0u; k < width; k++) { finite = finite && is_finite(gradient[k]); }
    let is_moved = finite && rates.w != 0.0;
    var clock = corrections[row.w];
    workgroupBarrier();
    if (is_moved) {
        if (clock != 0xffffffffu) { clock += 1u; }
        if (thread == 0u) { corrections[row.w] = clock; }
        var bias = vec2<f32>(1.0);
        if (clock < BIAS_CLOCKS) { bias = vec2<f32>(bitcast<f32>(sums[2u * clock]), bitcast<f32>(sums[2u * clock + 1u])); }
        if (thread < width) {
            let rate = select(rates.y, rates.x, thread < split);
            let a = adam(
                vec4<f32>(value_at(row.x + thread)),
                vec4<f32>(value_at(row.y + thread)),
                vec4<f32>(value_at(row.z + thread)),
                vec4<f32>(gradient[thread]),
                vec4<f32>(rate),
                bias,
            );
            corrections[row.x + thread] = bitcast<u32>(a.parameter.x - rates.z * a.parameter.x);
            corrections[row.y + thread] = bitcast<u32>(a.moment1.x);
            corrections[row.z + thread] = bitcast<u32>(a.moment2.x);
        }
    }
    workgroupBarrier();
}

/// Subtracts the mean over all rows of gains from each of them, channel by channel.
fn hold_mean(thread: u32) {
    storageBarrier();
    workgroupBarrier();
    for (var channel = 0u; channel < 3u; channel++) {
        var sum = 0.0;
        for (var row = thread; row < job.gain_rows; row += 256u) { sum += value_at(job.gain_values + 3u * row + channel); }
        let mean = over_threads(thread, sum) / f32(job.gain_rows);
        for (var row = thread; row < job.gain_rows; row += 256u) {
            let at = job.gain_values + 3u * row + channel;
            corrections[at] = bitcast<u32>(value_at(at) - mean);
        }
    }
}

/// The gradient of the pose row from the sums, by the first thread.
fn pose_gradient(g0: vec4<f32>, g1: vec4<f32>, g2: vec4<f32>) {
    let t = vec3<f32>(view.rotation_0.w, view.rotation_1.w, view.rotation_2.w);
    let r0 = view.rotation_0.xyz;
    let r1 = view.rotation_1.xyz;
    let r2 = view.rotation_2.xyz;
    let a21 = dot(g2.xyz, r1) + g2.w * t.y;
    let a12 = dot(g1.xyz, r2) + g1.w * t.z;
    let a02 = dot(g0.xyz, r2) + g0.w * t.z;
    let a20 = dot(g2.xyz, r0) + g2.w * t.x;
    let a10 = dot(g1.xyz, r0) + g1.w * t.x;
    let a01 = dot(g0.xyz, r1) + g0.w * t.y;
    var first = vec3<f32>(g0.w, g1.w, g2.w);
    var second = vec3<f32>(a21 - a12, a02 - a20, a10 - a01);
    // The twist as it acts on this camera.
    let at = job.pose_row.x;
    var rho = vec3<f32>(value_at(at), value_at(at + 1u), value_at(at + 2u));
    var phi = vec3<f32>(value_at(at + 3u), value_at(at + 4u), value_at(at + 5u));
    let turned = mat3x3<f32>(job.rig_0.xyz, job.rig_1.xyz, job.rig_2.xyz);
    let shift = vec3<f32>(job.rig_0.w, job.rig_1.w, job.rig_2.w);
    let in_rig = (job.flags & FLAG_RIG) != 0u;
    if (in_rig) {
        phi = phi * turned;
        rho = rho * turned + cross(shift, phi);
    }
    // J_lᵀ by its series: ad(ξ)ᵀ (a, b) = (-φ × a, -ρ × a - φ × b).
    var a = first;
    var b = second;
    for (var n = 1u; n < 16u; n++) {
        let scale = -1.0 / f32(n + 1u);
        let next_b = (cross(rho, a) + cross(phi, b)) * scale;
        a = cross(phi, a) * scale;
        b = next_b;
        first += a;
        second += b;
    }
    if (in_rig) {
        second += cross(first, shift);
        first = turned * first;
        second = turned * second;
    }
    gradient[0] = first.x;
    gradient[1] = first.y;
    gradient[2] = first.z;
    gradient[3] = second.x;
    gradient[4] = second.y;
    gradient[5] = second.z;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
    if (job.vignetting_row.x != NOWHERE && job.vignetting_rates.w != 0.0) {
        for (var k = 0u; k < 3u; k++) {
            let sum = over_tiles(thread, 3u + k);
            if (thread == 0u) { gradient[k] = sum; }
        }
        move_row(thread, job.vignetting_row, job.vignetting_rates, 3u, 3u);
    }
    if (job.gain_row.x != NOWHERE && job.gain_rates.w != 0.0) {
        for (var k = 0u; k < 3u; k++) {
            let sum = over_tiles(thread, k);
            if (thread == 0u) { gradient[k] = sum; }
        }
        move_row(thread, job.gain_row, job.gain_rates, 3u, 3u);
        hold_mean(thread);
    }
    if (job.sky_row.x != NOWHERE && job.sky_rates.w != 0.0) {
        for (var k = 0u; k < 27u; k++) {
            let sum = over_tiles(thread, TILE_SUMS_SKY + k);
            if (thread == 0u) { gradient[k] = sum; }
        }
        move_row(thread, job.sky_row, job.sky_rates, 27u, 27u);
    }
    if (job.pose_row.x != NOWHERE && job.pose_rates.w != 0.0) {
        let s00 = over_groups(thread, 0u);
        let s01 = over_groups(thread, 1u);
        let s02 = over_groups(thread, 2u);
        let s10 = over_groups(thread, 3u);
        let s11 = over_groups(thread, 4u);
        let s12 = over_groups(thread, 5u);
        let s20 = over_groups(thread, 6u);
        let s21 = over_groups(thread, 7u);
        let s22 = over_groups(thread, 8u);
        let p = vec3<f32>(over_groups(thread, 9u), over_groups(thread, 10u), over_groups(thread, 11u));
        // The camera centre is -Rᵀ t, and moving it has the same effect on directions as moving the splats in the
        // opposite direction.
        let centre = -vec3<f32>(over_groups(thread, 12u), over_groups(thread, 13u), over_groups(thread, 14u));
        if (thread == 0u) {
            let turned = vec3<f32>(dot(view.rotation_0.xyz, centre), dot(view.rotation_1.xyz, centre), dot(view.rotation_2.xyz, centre));
            pose_gradient(
                vec4<f32>(vec3<f32>(s00, s01, s02) - view.rotation_0.w * centre, p.x - turned.x),
                vec4<f32>(vec3<f32>(s10, s11, s12) - view.rotation_1.w * centre, p.y - turned.y),
                vec4<f32>(vec3<f32>(s20, s21, s22) - view.rotation_2.w * centre, p.z - turned.z),
            );
        }
        move_row(thread, job.pose_row, job.pose_rates, 6u, 3u);
    }
}
