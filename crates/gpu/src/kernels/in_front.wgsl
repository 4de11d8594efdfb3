// The blending weight in front of a depth at a pixel: Σ w over the splats of its tile with camera z below the depth, as
// `gausset_raster::in_front`. One thread per query.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> ranges: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<u32>;
@group(0) @binding(3) var<storage, read> entry_splats: array<u32>;
@group(0) @binding(4) var<storage, read> screen: array<vec4<f32>>;
// Column, row, bits of the depth; bits of the result, written here.
@group(0) @binding(5) var<storage, read_write> queries: array<vec4<u32>>;

fn weight(query: vec4<u32>) -> f32 {
    let limit = bitcast<f32>(query.z);
    let tile = query.y / TILE_SIZE * job.tiles_x + query.x / TILE_SIZE;
    let centre = vec2<f32>(f32(query.x) + 0.5, f32(query.y) + 0.5);
    var sum = 0.0;
    var transmittance = 1.0;
    for (var at = ranges[4u * tile]; at < ranges[4u * tile + 2u]; at++) {
        let splat = entry_splats[entries[at]];
        // Lists are in depth order; no weight is in front of a NaN depth.
        if (is_nan(limit) || screen[2u * job.drawn_capacity + splat].y >= limit) { break; }
        let a = screen[splat];
        let exponent = exponent_at(a, screen[job.drawn_capacity + splat], centre - a.xy);
        if (exponent < -LOG2_255) { continue; }
        let alpha = min(exp2(exponent), ALPHA_MAX);
        let behind = fma(-alpha, transmittance, transmittance);
        if (behind <= TRANSMITTANCE_STOP) { break; }
        sum = fma(alpha, transmittance, sum);
        transmittance = behind;
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.queries) { return; }
    let query = queries[i];
    let row = query.y / TILE_SIZE;
    // Outside the image the result stays 0.
    let is_asked = query.x < job.width && query.y < job.height && row >= job.band_top && row < job.band_bottom;
    if (is_asked) { queries[i].w = bitcast<u32>(weight(query)); }
}
