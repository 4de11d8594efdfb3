// Stage `project`: projects splats to the screen and evaluates their colour.
//
// A splat reaches alpha 1/255 only inside the ellipse dᵀ Q d <= τ with τ = 2 ln(255 o), whose bounding box has half
// sizes sqrt(τ a), sqrt(τ c). It is dropped if it is not in front of the near plane, if τ < 0, if its box touches no
// pixel centre, or if a result is not finite. The rectangle of tiles is written once, as integers, and used by
// everything that counts tiles or walks over them.
//
// Screen record, three planes: (x, y, A, B), (C, L, red, green), (blue, z, 0, 0); the exponent of a pixel at (dx, dy)
// from the mean is (A dx + B dy) dx + C dy² + L, in base 2.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> view: View;
@group(0) @binding(2) var<storage, read> splats: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> sh_0: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> sh_1: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> sh_2: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> sh_3: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> screen: array<vec4<f32>>;
// (x0 | y0 << 16, width | height << 16) in tiles, bits of z, 0.
@group(0) @binding(8) var<storage, read_write> boxes: array<vec4<u32>>;
@group(0) @binding(9) var<storage, read_write> partials: array<u32>;

var<workgroup> counts: array<u32, 256>;

/// First and last pixel whose centre is within `extent` of `centre`, clamped to the image.
fn pixel_range(centre: f32, extent: f32, side: u32) -> vec2<f32> {
    let reach = fma(extent, 1.00001, EXTENT_SLACK);
    return vec2<f32>(max(ceil(centre - reach - 0.5), 0.0), min(floor(centre + reach - 0.5), f32(side - 1u)));
}

/// `0.5 + Σ_k Y_k sh[k]`.
fn colour_at(i: u32, d: vec3<f32>) -> vec3<f32> {
    let stride = job.capacity;
    let degree = job.sh_degree;
    let c = coefficients(sh_0[i], sh_0[stride + i], sh_0[2u * stride + i]);
    var colour = vec3<f32>(0.5) + colour_of(c, basis_0(d), in_use(0u, degree));
    if (degree >= 2u) {
        let c1 = coefficients(sh_1[i], sh_1[stride + i], sh_1[2u * stride + i]);
        colour += colour_of(c1, basis_1(d), in_use(1u, degree));
        let c2 = coefficients(sh_2[i], sh_2[stride + i], sh_2[2u * stride + i]);
        colour += colour_of(c2, basis_2(d), in_use(2u, degree));
    }
    if (degree >= 3u) {
        let c3 = coefficients(sh_3[i], sh_3[stride + i], sh_3[2u * stride + i]);
        colour += colour_of(c3, basis_3(d), in_use(3u, degree));
    }
    return colour;
}

/// Whether dropout leaves a splat out: 16 random bits each (Park et al. 2025, DropGaussian).
fn is_left_out(i: u32) -> bool {
    if (job.dropout_limit == 0u) { return false; }
    let splat = job.first_splat + i;
    let words = philox(vec2<u32>(job.seed_low, job.seed_high), STREAM_DROPOUT, vec2<u32>(job.step_low, job.step_high), splat / 8u);
    let pair = (splat % 8u) / 2u;
    var word = words.x;
    if (pair == 1u) { word = words.y; }
    if (pair == 2u) { word = words.z; }
    if (pair == 3u) { word = words.w; }
    let bits = select(word & 0xffffu, word >> 16u, (splat & 1u) == 1u);
    return bits < job.dropout_limit;
}

/// Projects a splat; returns its box, empty if it is not visible.
fn project(i: u32) -> vec4<u32> {
    let nothing = vec4<u32>(0u);
    let stride = job.capacity;
    let p0 = splats[i];
    let g = geometry_of(p0, splats[stride + i], splats[2u * stride + i], view, (job.flags & FLAG_ANTIALIASED) != 0u);
    if (!(g.point.z > view.origin.w) || is_nan(p0.w)) { return nothing; }
    let log2_opacity = log2(max(g.opacity_raw * g.compensation, 1e-37));
    let tau = 2.0 * LN_2 * (log2_opacity + LOG2_255);
    if (!(tau >= 0.0)) { return nothing; }
    let extent = sqrt(max(tau * g.cov.xz, vec2<f32>(0.0)));
    if (!is_finite(g.mean2d.x + extent.x) || !is_finite(g.mean2d.y + extent.y)) { return nothing; }
    let columns = pixel_range(g.mean2d.x, extent.x, job.width);
    let rows = pixel_range(g.mean2d.y, extent.y, job.height);
    if (!(columns.x <= columns.y) || !(rows.x <= rows.y)) { return nothing; }
    if (is_left_out(i)) { return nothing; }
    let d = direction_to(g.mean, view.origin.xyz);
    let colour = colour_at(i, d.unit);
    let conic = conic_of(g) * vec3<f32>(-0.5 * LOG2_E, -LOG2_E, -0.5 * LOG2_E);
    let finite = are_finite(vec4<f32>(colour, log2_opacity)) && are_finite(vec4<f32>(conic, extent.x * g.cov.y / g.cov.x));
    if (!finite) { return nothing; }
    let clamped = max(colour, vec3<f32>(0.0));
    screen[i] = vec4<f32>(g.mean2d, conic.xy);
    screen[stride + i] = vec4<f32>(conic.z, log2_opacity, clamped.xy);
    screen[2u * stride + i] = vec4<f32>(clamped.z, g.point.z, 0.0, 0.0);
    let x0 = u32(columns.x) / TILE_SIZE;
    let y0 = u32(rows.x) / TILE_SIZE;
    let width = u32(columns.y) / TILE_SIZE + 1u - x0;
    let height = u32(rows.y) / TILE_SIZE + 1u - y0;
    return vec4<u32>(x0 | (y0 << 16u), width | (height << 16u), bitcast<u32>(g.point.z), 0u);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    let i = block * 256u + thread;
    var drawn = vec4<u32>(0u);
    if (i < job.splats && job.first_splat + i < job.only_first) { drawn = project(i); }
    if (i < job.splats) { boxes[i] = drawn; }
    counts[thread] = select(0u, 1u, drawn.y != 0u);
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { counts[thread] += counts[thread + reach]; }
        workgroupBarrier();
    }
    if (thread == 0u && block * 256u < job.splats) { partials[block] = counts[0]; }
}
