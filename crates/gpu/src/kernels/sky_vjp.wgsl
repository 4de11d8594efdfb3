// The gradient of the sky: dL/dc_k = Σ_pixels T_end Y_k(d) g where the sky is not black, summed over each tile.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> view: View;
@group(0) @binding(2) var<storage, read> pixels: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> corrections: array<u32>;
@group(0) @binding(4) var<storage, read_write> tile_sums: array<f32>;

var<workgroup> totals: array<vec3<f32>, 256>;

fn coefficient(k: u32) -> vec3<f32> {
    let at = job.sky_row.x + 3u * k;
    return vec3<f32>(bitcast<f32>(corrections[at]), bitcast<f32>(corrections[at + 1u]), bitcast<f32>(corrections[at + 2u]));
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let tile = group_index(group);
    let centre = pixel_centre(tile, job.tiles_x, thread);
    let inside = centre.x < f32(job.width) && centre.y < f32(job.height);
    let uv = (centre - view.lens.zw) / view.lens.xy;
    let way = uv.x * view.rotation_0.xyz + uv.y * view.rotation_1.xyz + view.rotation_2.xyz;
    let d = way * (1.0 / sqrt(dot(way, way)));
    let y0 = basis_0(d);
    let y1 = basis_1(d);
    let y8 = basis_2(d).x;
    var sky = vec3<f32>(0.5) + coefficient(0u) * y0.x + coefficient(1u) * y0.y + coefficient(2u) * y0.z;
    sky += coefficient(3u) * y0.w + coefficient(4u) * y1.x + coefficient(5u) * y1.y + coefficient(6u) * y1.z;
    sky += coefficient(7u) * y1.w + coefficient(8u) * y8;
    var g = vec3<f32>(0.0);
    if (inside) {
        let at = u32(centre.y) * job.width + u32(centre.x);
        let last = pixels[at].w;
        if (last > 0.0) {
            g = select(vec3<f32>(0.0), pixels[job.width * job.height + at].xyz * last, sky > vec3<f32>(0.0));
        }
    }
    for (var k = 0u; k < 9u; k++) {
        var y = y0.x;
        if (k == 1u) { y = y0.y; }
        if (k == 2u) { y = y0.z; }
        if (k == 3u) { y = y0.w; }
        if (k == 4u) { y = y1.x; }
        if (k == 5u) { y = y1.y; }
        if (k == 6u) { y = y1.z; }
        if (k == 7u) { y = y1.w; }
        if (k == 8u) { y = y8; }
        totals[thread] = g * y;
        workgroupBarrier();
        for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
            if (thread < reach) { totals[thread] += totals[thread + reach]; }
            workgroupBarrier();
        }
        if (thread == 0u && tile < job.tiles) {
            let at = TILE_SUMS * tile + TILE_SUMS_SKY + 3u * k;
            tile_sums[at] = totals[0].x;
            tile_sums[at + 1u] = totals[0].y;
            tile_sums[at + 2u] = totals[0].z;
        }
        workgroupBarrier();
    }
}
