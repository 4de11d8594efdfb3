// Stage `project_vjp`, colours: the gradient before the clamp at zero, and the gradient of the mean through the viewing
// direction. Computed for each visible splat before anything of it is updated.
//
// With e = Σ_k (c_k · g) ∇Y_k at the unit direction d: d mean = (e - (e · d) d) / |mean - origin|.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> view: View;
@group(0) @binding(2) var<storage, read> boxes: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> splats: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> sh_0: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> sh_1: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> sh_2: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> sh_3: array<vec4<f32>>;
// Sums of the slots; the gradient of the colour is replaced by the one before the clamp.
@group(0) @binding(8) var<storage, read_write> gradients: array<vec4<f32>>;
// Plane 0: unit direction; plane 1: gradient of the mean.
@group(0) @binding(9) var<storage, read_write> directions: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    if (boxes[i].y == 0u) { return; }
    let stride = job.capacity;
    let degree = job.sh_degree;
    let direction = direction_to(splats[i].xyz, view.origin.xyz);
    let d = direction.unit;
    let sum_1 = gradients[stride + i];
    let sum_2 = gradients[2u * stride + i];
    let c0 = coefficients(sh_0[i], sh_0[stride + i], sh_0[2u * stride + i]);
    var colour = vec3<f32>(0.5) + colour_of(c0, basis_0(d), in_use(0u, degree));
    var c1 = c0;
    var c2 = c0;
    var c3 = c0;
    if (degree >= 2u) {
        c1 = coefficients(sh_1[i], sh_1[stride + i], sh_1[2u * stride + i]);
        c2 = coefficients(sh_2[i], sh_2[stride + i], sh_2[2u * stride + i]);
        colour += colour_of(c1, basis_1(d), in_use(1u, degree));
        colour += colour_of(c2, basis_2(d), in_use(2u, degree));
    }
    if (degree >= 3u) {
        c3 = coefficients(sh_3[i], sh_3[stride + i], sh_3[2u * stride + i]);
        colour += colour_of(c3, basis_3(d), in_use(3u, degree));
    }
    let g = select(vec3<f32>(0.0), vec3<f32>(sum_1.zw, sum_2.x), colour > vec3<f32>(0.0));
    var mean = vec3<f32>(0.0);
    if (degree >= 1u && sum_2.w != 0.0) {
        var e = slope_0(weights_of(c0, g, in_use(0u, degree)));
        if (degree >= 2u) {
            e += slope_1(d, weights_of(c1, g, in_use(1u, degree)));
            e += slope_2(d, weights_of(c2, g, in_use(2u, degree)));
        }
        if (degree >= 3u) { e += slope_3(d, weights_of(c3, g, in_use(3u, degree))); }
        mean = (e - dot(e, d) * d) * direction.inverse_length;
    }
    gradients[stride + i] = vec4<f32>(sum_1.xy, g.xy);
    gradients[2u * stride + i] = vec4<f32>(g.z, sum_2.yzw);
    directions[i] = vec4<f32>(d, 0.0);
    directions[stride + i] = vec4<f32>(mean, 0.0);
}
