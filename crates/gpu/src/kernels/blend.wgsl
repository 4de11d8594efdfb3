// Stage `blend`: composites the pixels of a tile, front to back.
//
//     α = min(0.99, 2^exponent), nothing where the exponent is below -log2 255;  T_next = T - α T
//     blended while T_next > 1e-4:  C += α T colour,  D += α T z
//     pixel = C + T_end (background + sky)
//
// One thread per pixel; the splats of a tile are loaded 256 at a time. Threads whose pixel has stopped continue to load
// and wait, so that no barrier depends on them. A long list may be walked in chunks, one dispatch each: C, T, D and the
// count are carried from one to the next in the pixel buffers, and the operations are those of a single walk.

// Whether depth and count are written.
override EXTRAS: bool = false;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> view: View;
@group(0) @binding(2) var<storage, read_write> ranges: array<u32>;
@group(0) @binding(3) var<storage, read> entries: array<u32>;
@group(0) @binding(4) var<storage, read> entry_splats: array<u32>;
@group(0) @binding(5) var<storage, read> screen: array<vec4<f32>>;
// Colour and T_end.
@group(0) @binding(6) var<storage, read_write> pixels: array<vec4<f32>>;
// Bits of Σ w z, splats blended.
@group(0) @binding(7) var<storage, read_write> depths: array<vec2<u32>>;
@group(0) @binding(8) var<storage, read> corrections: array<u32>;
@group(0) @binding(9) var<storage, read_write> status: array<atomic<u32>>;

var<workgroup> a: array<vec4<f32>, 256>;
var<workgroup> b: array<vec4<f32>, 256>;
var<workgroup> c: array<vec2<f32>, 256>;
var<workgroup> most_used: atomic<u32>;

/// `Y_k` of the sky's channel.
fn sky_value(k: u32, channel: u32) -> f32 {
    return bitcast<f32>(corrections[job.sky_row.x + 3u * k + channel]);
}

/// `max(0, 0.5 + Σ_k c_k Y_k)` in the direction of a pixel, degree 2.
fn sky_at(centre: vec2<f32>) -> vec3<f32> {
    let uv = (centre - view.lens.zw) / view.lens.xy;
    let way = uv.x * view.rotation_0.xyz + uv.y * view.rotation_1.xyz + view.rotation_2.xyz;
    let d = way * (1.0 / sqrt(dot(way, way)));
    let y0 = basis_0(d);
    let y1 = basis_1(d);
    let y8 = basis_2(d).x;
    var sky = vec3<f32>(0.5);
    sky += vec3<f32>(sky_value(0u, 0u), sky_value(0u, 1u), sky_value(0u, 2u)) * y0.x;
    sky += vec3<f32>(sky_value(1u, 0u), sky_value(1u, 1u), sky_value(1u, 2u)) * y0.y;
    sky += vec3<f32>(sky_value(2u, 0u), sky_value(2u, 1u), sky_value(2u, 2u)) * y0.z;
    sky += vec3<f32>(sky_value(3u, 0u), sky_value(3u, 1u), sky_value(3u, 2u)) * y0.w;
    sky += vec3<f32>(sky_value(4u, 0u), sky_value(4u, 1u), sky_value(4u, 2u)) * y1.x;
    sky += vec3<f32>(sky_value(5u, 0u), sky_value(5u, 1u), sky_value(5u, 2u)) * y1.y;
    sky += vec3<f32>(sky_value(6u, 0u), sky_value(6u, 1u), sky_value(6u, 2u)) * y1.z;
    sky += vec3<f32>(sky_value(7u, 0u), sky_value(7u, 1u), sky_value(7u, 2u)) * y1.w;
    sky += vec3<f32>(sky_value(8u, 0u), sky_value(8u, 1u), sky_value(8u, 2u)) * y8;
    return max(sky, vec3<f32>(0.0));
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let tile = tile_of(group);
    let list = list_of(tile, thread, 2u);
    let part = chunk_of(list.x, list.y);
    let lo = part.x;
    let hi = part.y;
    if (thread == 0u) {
        atomicStore(&most_used, list.x);
        atomicMax(&status[STATUS_LONGEST], list.y - list.x);
    }
    workgroupBarrier();
    let centre = pixel_centre(tile, job.tiles_x, thread);
    let inside = tile < band_end() && centre.x < f32(job.width) && centre.y < f32(job.height);
    let at = u32(centre.y) * job.width + u32(centre.x);
    var transmittance = 1.0;
    var colour = vec3<f32>(0.0);
    var depth = 0.0;
    var count = 0u;
    var stopped = !inside;
    var used = list.x;
    if (job.chunk > 0u && inside) {
        // The transmittance of a pixel that has stopped is stored negated.
        let carried = pixels[at];
        colour = carried.xyz;
        transmittance = abs(carried.w);
        stopped = carried.w < 0.0;
        used = ranges[4u * tile + 3u];
        if (EXTRAS) {
            depth = bitcast<f32>(depths[at].x);
            count = depths[at].y;
        }
    }
    for (var first = lo; first < hi; first += 256u) {
        let n = min(256u, hi - first);
        workgroupBarrier();
        if (thread < n) {
            let splat = entry_splats[entries[first + thread]];
            a[thread] = screen[splat];
            b[thread] = screen[job.drawn_capacity + splat];
            c[thread] = screen[2u * job.drawn_capacity + splat].xy;
        }
        workgroupBarrier();
        for (var k = 0u; k < n && !stopped; k++) {
            let exponent = exponent_at(a[k], b[k], centre - a[k].xy);
            if (exponent >= -LOG2_255) {
                let alpha = min(exp2(exponent), ALPHA_MAX);
                let next = fma(-alpha, transmittance, transmittance);
                if (next > TRANSMITTANCE_STOP) {
                    let weight = alpha * transmittance;
                    colour = fma(vec3<f32>(weight), vec3<f32>(b[k].zw, c[k].x), colour);
                    if (EXTRAS) {
                        depth = fma(weight, c[k].y, depth);
                        count += 1u;
                    }
                    transmittance = next;
                    used = first + k + 1u;
                } else {
                    stopped = true;
                }
            }
        }
    }
    if (inside) {
        if (is_last_chunk()) {
            colour = fma(vec3<f32>(transmittance), job.background.xyz, colour);
            if (job.sky_row.x != NOWHERE) { colour = fma(vec3<f32>(transmittance), sky_at(centre), colour); }
        } else if (stopped) {
            transmittance = -transmittance;
        }
        pixels[at] = vec4<f32>(colour, transmittance);
        if (EXTRAS) { depths[at] = vec2<u32>(bitcast<u32>(depth), count); }
    }
    atomicMax(&most_used, used);
    workgroupBarrier();
    if (thread == 0u && tile < band_end()) { ranges[4u * tile + 3u] = atomicLoad(&most_used); }
}
