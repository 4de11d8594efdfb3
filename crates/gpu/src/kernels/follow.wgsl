// Adds the evidence of rays about the splats along them, as `gausset_raster::free_space`. One thread per ray.
//
// The list of the ray's tile is walked front to back. A splat with the blending weight w = alpha T is counted against
// if its density along the ray peaks at t < `reach`,
//
//     t = (wᵀ Σ⁻¹ m) / (wᵀ Σ⁻¹ w),  m its mean, w the way, both from the camera centre,
//
// and for if t is between `reach` and 2 - `reach`. Weights are summed as integers, so their order does not matter.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> ranges: array<u32>;
@group(0) @binding(3) var<storage, read> entries: array<u32>;
@group(0) @binding(4) var<storage, read> entry_splats: array<u32>;
@group(0) @binding(5) var<storage, read> screen: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> splats: array<vec4<f32>>;
// Position in px, tile, 0; vector from the camera to the point, 0.
@group(0) @binding(7) var<storage, read> rays: array<vec4<u32>>;
// Planes: sum against a splat, rays against it, sum for it.
@group(0) @binding(8) var<storage, read_write> evidence: array<atomic<u32>>;

// Smaller weights are not counted.
const LEAST_SHARE: f32 = 0.02;

/// The fraction of the ray at which the density of a splat peaks; -1 if there is none. Scales are taken relative to the
/// shortest, which cancels, so that squares of small scales do not underflow.
fn peak_along(i: u32, way: vec3<f32>) -> f32 {
    let log_scales = splats[2u * job.capacity + i].xyz;
    let shortest = min(min(log_scales.x, log_scales.y), log_scales.z);
    let shape = shape_of(splats[job.capacity + i], min(log_scales - vec3<f32>(shortest), vec3<f32>(80.0)));
    let mean = splats[i].xyz - job.base_origin.xyz;
    let along = (way.x * shape.r0 + way.y * shape.r1 + way.z * shape.r2) / shape.scale;
    let place = (mean.x * shape.r0 + mean.y * shape.r1 + mean.z * shape.r2) / shape.scale;
    let below = dot(along, along);
    if (!(below > 0.0) || !is_finite(below)) { return -1.0; }
    return max(dot(along, place) / below, 0.0);
}

fn follow(ray: u32) {
    let at = bitcast<vec2<f32>>(rays[2u * ray].xy);
    let tile = rays[2u * ray].z;
    // Evidence of rows that are done has been added.
    if (tile < max(job.band_top, job.done_rows) * job.tiles_x || tile >= job.band_bottom * job.tiles_x) { return; }
    let way = bitcast<vec3<f32>>(rays[2u * ray + 1u].xyz);
    var transmittance = 1.0;
    for (var entry = ranges[4u * tile]; entry < ranges[4u * tile + 2u]; entry++) {
        let splat = entry_splats[entries[entry]];
        let a = screen[splat];
        let exponent = exponent_at(a, screen[job.drawn_capacity + splat], at - a.xy);
        if (exponent < -LOG2_255) { continue; }
        let share = min(exp2(exponent), ALPHA_MAX) * transmittance;
        if (share >= LEAST_SHARE) {
            let peak = peak_along(splat, way);
            let counted = u32(fma(share, rule.weight_unit, 0.5));
            if (peak >= 0.0 && peak < rule.reach) {
                atomicAdd(&evidence[splat], counted);
                atomicAdd(&evidence[job.capacity + splat], 1u);
            } else if (peak >= 0.0 && peak <= 2.0 - rule.reach) {
                atomicAdd(&evidence[2u * job.capacity + splat], counted);
            }
        }
        transmittance -= share;
        if (transmittance <= TRANSMITTANCE_STOP) { break; }
    }
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let ray = group_index(group) * 256u + thread;
    if (ray < job.queries) { follow(ray); }
}
