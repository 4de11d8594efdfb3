// Makes splats in space that is known to be empty transparent, as `gausset_raster::free_space`: those removed by rays,
// and those in a bubble that no camera sees from close by.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read_write> splats: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> moments1: array<vec4<u32>>;
// Planes: sum against a splat, rays against it, sum for it.
@group(0) @binding(4) var<storage, read> evidence: array<u32>;
// Bubbles (centre, radius), then cameras: rows of `camera_from_world`, (centre, near plane), lens, (width, height, 0, 0).
@group(0) @binding(5) var<storage, read> places: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> status: array<atomic<u32>>;

var<workgroup> cleared: atomic<u32>;

fn is_condemned_by_rays(i: u32) -> bool {
    if ((rule.flags & RULE_LOOKED) == 0u) { return false; }
    let against = evidence[i];
    return against >= rule.least_weight && evidence[job.capacity + i] >= rule.least_points
        && evidence[2u * job.capacity + i] < against;
}

fn squared_distance(a: vec3<f32>, b: vec3<f32>) -> f32 {
    let d = a - b;
    return d.x * d.x + d.y * d.y + d.z * d.z;
}

/// Whether a mean is inside the image of a camera.
fn is_seen(mean: vec3<f32>, first: u32) -> bool {
    let x = dot(places[first].xyz, mean) + places[first].w;
    let y = dot(places[first + 1u].xyz, mean) + places[first + 1u].w;
    let z = dot(places[first + 2u].xyz, mean) + places[first + 2u].w;
    let lens = places[first + 4u];
    let at = lens.xy * vec2<f32>(x, y) + lens.zw * z;
    let end = places[first + 5u].xy * z;
    return z > places[first + 3u].w && at.x >= 0.0 && at.y >= 0.0 && at.x < end.x && at.y < end.y;
}

fn is_in_bubble(mean: vec3<f32>) -> bool {
    var nearest = vec2<f32>(3e38, 0.0);
    for (var k = 0u; k < rule.bubbles; k++) {
        let bubble = places[k];
        let squared = squared_distance(mean, bubble.xyz);
        // The first of equals.
        if (squared < nearest.x) { nearest = vec2<f32>(squared, bubble.w); }
    }
    if (nearest.x >= nearest.y * nearest.y) { return false; }
    let limit = rule.near * rule.near * nearest.x;
    for (var k = 0u; k < rule.cameras; k++) {
        let first = rule.bubbles + 6u * k;
        if (squared_distance(mean, places[first + 3u].xyz) < limit && is_seen(mean, first)) { return false; }
    }
    return true;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (thread == 0u) { atomicStore(&cleared, 0u); }
    workgroupBarrier();
    if (i < job.splats) {
        let splat = splats[i];
        let is_place = are_finite_bits(vec4<u32>(splat.xyz, 0u));
        if (is_condemned_by_rays(i) || (is_place && is_in_bubble(bitcast<vec3<f32>>(splat.xyz)))) {
            // A splat that is already transparent is not counted again.
            if (is_above(splat.w, bitcast<u32>(rule.reset_logit))) { atomicAdd(&cleared, 1u); }
            splats[i].w = bitcast<u32>(rule.reset_logit);
            moments1[i].w = 0u;
        }
    }
    workgroupBarrier();
    if (thread == 0u) { atomicAdd(&status[RULE_CLEARED], atomicLoad(&cleared)); }
}
