// Stage `view`: the camera of a unit, with the learned correction of its pose.
//
//     camera_from_world = exp(ξ) · base,  ξ = the row, or the adjoint of camera_from_rig on it
//
// The exponential is written as identity + E, so that a small twist is a small change of the base (Barfoot 2017, 7.86):
// E = a [φ]× + b [φ]×²,  V = I + b [φ]× + c [φ]×²,  a = sin θ/θ, b = (1 - cos θ)/θ², c = (θ - sin θ)/θ³.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read_write> view: View;
@group(0) @binding(2) var<storage, read> corrections: array<u32>;

/// (a, b, c) by their series: eight terms are accurate to f32 up to an angle of three quarters of a turn.
fn exponential_coefficients(t2: f32) -> vec3<f32> {
    var a = 1.0;
    var b = 0.5;
    var c = 1.0 / 6.0;
    var term = vec3<f32>(1.0, 0.5, 1.0 / 6.0);
    for (var k = 1u; k < 13u; k++) {
        let n = 2.0 * f32(k);
        term *= -t2 / vec3<f32>(n * (n + 1.0), (n + 1.0) * (n + 2.0), (n + 2.0) * (n + 3.0));
        a += term.x;
        b += term.y;
        c += term.z;
    }
    return vec3<f32>(a, b, c);
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u) { return; }
    view.rotation_0 = job.base_0;
    view.rotation_1 = job.base_1;
    view.rotation_2 = job.base_2;
    view.origin = job.base_origin;
    view.lens = job.lens;
    view.ratio = job.ratio;
    let place = job.pose_row.x;
    if (place == NOWHERE) { return; }
    var rho = vec3<f32>(bitcast<f32>(corrections[place]), bitcast<f32>(corrections[place + 1u]), bitcast<f32>(corrections[place + 2u]));
    var phi = vec3<f32>(bitcast<f32>(corrections[place + 3u]), bitcast<f32>(corrections[place + 4u]), bitcast<f32>(corrections[place + 5u]));
    if ((job.flags & FLAG_RIG) != 0u) {
        let turned = mat3x3<f32>(job.rig_0.xyz, job.rig_1.xyz, job.rig_2.xyz);
        let shift = vec3<f32>(job.rig_0.w, job.rig_1.w, job.rig_2.w);
        // A row vector times the columns: rows of the rotation are the columns of `turned`.
        phi = phi * turned;
        rho = rho * turned + cross(shift, phi);
    }
    let k = exponential_coefficients(dot(phi, phi));
    // E and V - I applied to a vector.
    let b0 = vec3<f32>(job.base_0.x, job.base_1.x, job.base_2.x);
    let b1 = vec3<f32>(job.base_0.y, job.base_1.y, job.base_2.y);
    let b2 = vec3<f32>(job.base_0.z, job.base_1.z, job.base_2.z);
    let bt = vec3<f32>(job.base_0.w, job.base_1.w, job.base_2.w);
    let c0 = b0 + turn(phi, b0, k.xy);
    let c1 = b1 + turn(phi, b1, k.xy);
    let c2 = b2 + turn(phi, b2, k.xy);
    let ct = bt + turn(phi, bt, k.xy) + rho + turn(phi, rho, k.yz);
    view.rotation_0 = vec4<f32>(c0.x, c1.x, c2.x, ct.x);
    view.rotation_1 = vec4<f32>(c0.y, c1.y, c2.y, ct.y);
    view.rotation_2 = vec4<f32>(c0.z, c1.z, c2.z, ct.z);
    view.origin = vec4<f32>(-dot(c0, ct), -dot(c1, ct), -dot(c2, ct), job.base_origin.w);
}

/// `(a [φ]× + b [φ]×²) x`.
fn turn(phi: vec3<f32>, x: vec3<f32>, k: vec2<f32>) -> vec3<f32> {
    let once = cross(phi, x);
    return k.x * once + k.y * cross(phi, once);
}
