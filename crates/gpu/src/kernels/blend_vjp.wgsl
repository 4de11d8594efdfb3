// Stage `blend_vjp`: gradients with respect to the screen splats, front to back with the arithmetic of `blend`.
//
// Per pixel, with the upstream gradient g of its colour, s_i = g · colour_i, and S_i is the contribution behind splat i
// (S starts as g · C of the finished pixel, and w_i s_i is subtracted at each splat):
//
//     v_i = dL/d ln α_i = w_i s_i - S_i α_i / (1 - α_i)      (0 where α is clamped or the splat is not blended)
//
// A workgroup is a tile. 64 threads own 64 splats and take turns at the 256 pixels: in round i thread t is at pixel i -
// t, so each pixel meets the splats in order and each thread sums alone. The sums of an entry go to its own slot: (Σv,
// Σv dx, Σv dy, Σv dx²), (Σv dx dy, Σv dy², dL/d red, green), (blue, Σ|v slope_x|, Σ|v slope_y|, 0); offsets are from
// the mean to the pixel.
//
// A long list may be walked in chunks, one dispatch each: T and S are carried in the fourth values of render and
// gradient, which are no longer needed.

// Whether to compute the absolute sums.
override ABSOLUTE: bool = false;
// Whether there are also upstream gradients of alpha and depth; no training step has them. Each acts as one more
// colour: of alpha 1, of depth z. Without absolute sums, Σ w dL/ddepth is stored in place of the first of them.
override EXTRAS: bool = false;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> ranges: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<u32>;
@group(0) @binding(3) var<storage, read> entry_splats: array<u32>;
@group(0) @binding(4) var<storage, read> screen: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> pixels: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> slots: array<vec4<f32>>;
// For each pixel dL/dalpha, dL/ddepth, and their part of S.
@group(0) @binding(7) var<storage, read> extras: array<vec4<f32>>;

// Upstream gradient and S of each pixel.
var<workgroup> gradients: array<vec4<f32>, 256>;
var<workgroup> transmittances: array<f32, 256>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let tile = tile_of(group);
    if (tile >= band_end()) { return; }
    let hi = ranges[4u * tile + 1u];
    let used = ranges[4u * tile + 3u];
    let part = chunk_of(ranges[4u * tile], used);
    let lo = part.x;
    let end = part.y;
    let corner = pixel_centre(tile, job.tiles_x, 0u);
    for (var p = thread; p < 256u; p += 64u) {
        let centre = pixel_centre(tile, job.tiles_x, p);
        var state = vec4<f32>(0.0);
        var transmittance = 0.0;
        if (centre.x < f32(job.width) && centre.y < f32(job.height)) {
            let at = u32(centre.y) * job.width + u32(centre.x);
            let g = pixels[job.width * job.height + at].xyz;
            if (job.chunk == 0u) {
                state = vec4<f32>(g, dot(g, pixels[at].xyz));
                if (EXTRAS) { state.w += extras[at].z; }
                transmittance = 1.0;
            } else {
                state = vec4<f32>(g, pixels[job.width * job.height + at].w);
                transmittance = pixels[at].w;
            }
        }
        gradients[p] = state;
        transmittances[p] = transmittance;
    }
    workgroupBarrier();
    for (var first = lo; first < end; first += 64u) {
        let n = min(64u, end - first);
        let is_on = thread < n;
        var entry = 0u;
        var a = vec4<f32>(0.0);
        var b = vec4<f32>(0.0);
        var blue = 0.0;
        var z = 0.0;
        if (is_on) {
            entry = entries[first + thread];
            let splat = entry_splats[entry];
            a = screen[splat];
            b = screen[job.drawn_capacity + splat];
            blue = screen[2u * job.drawn_capacity + splat].x;
            if (EXTRAS) { z = screen[2u * job.drawn_capacity + splat].y; }
        }
        let colour = vec3<f32>(b.zw, blue);
        var sum_0 = vec4<f32>(0.0);
        var sum_1 = vec4<f32>(0.0);
        var sum_2 = vec4<f32>(0.0);
        for (var round = 0u; round < n + 255u; round++) {
            if (is_on && round >= thread && round - thread < 256u) {
                let p = round - thread;
                let before = transmittances[p];
                if (before > TRANSMITTANCE_STOP) {
                    let offset = corner + vec2<f32>(f32(p % TILE_SIZE), f32(p / TILE_SIZE)) - a.xy;
                    let exponent = exponent_at(a, b, offset);
                    if (exponent >= -LOG2_255) {
                        let raw = exp2(exponent);
                        let alpha = min(raw, ALPHA_MAX);
                        let next = fma(-alpha, before, before);
                        if (next > TRANSMITTANCE_STOP) {
                            let state = gradients[p];
                            let weight = alpha * before;
                            var upstream = dot(colour, state.xyz);
                            if (EXTRAS) {
                                let centre = pixel_centre(tile, job.tiles_x, p);
                                let extra = extras[u32(centre.y) * job.width + u32(centre.x)];
                                upstream += extra.x + extra.y * z;
                                if (!ABSOLUTE) { sum_2.y = fma(weight, extra.y, sum_2.y); }
                            }
                            let own = weight * upstream;
                            let behind = state.w - own;
                            gradients[p].w = behind;
                            if (raw <= ALPHA_MAX) {
                                let v = own - behind * (alpha / (1.0 - alpha));
                                let vd = v * offset;
                                sum_0 += vec4<f32>(v, vd, 0.0);
                                sum_0.w = fma(vd.x, offset.x, sum_0.w);
                                sum_1.x = fma(vd.x, offset.y, sum_1.x);
                                sum_1.y = fma(vd.y, offset.y, sum_1.y);
                                if (ABSOLUTE) {
                                    let slope_x = fma(2.0 * a.z, offset.x, a.w * offset.y);
                                    let slope_y = fma(2.0 * b.x, offset.y, a.w * offset.x);
                                    sum_2.y += abs(v * slope_x);
                                    sum_2.z += abs(v * slope_y);
                                }
                            }
                            sum_1.z = fma(weight, state.x, sum_1.z);
                            sum_1.w = fma(weight, state.y, sum_1.w);
                            sum_2.x = fma(weight, state.z, sum_2.x);
                        }
                        // The transmittance continues to fall after the stop, so that nothing is blended after it.
                        transmittances[p] = next;
                    }
                }
            }
            workgroupBarrier();
        }
        if (is_on) {
            slots[3u * entry] = sum_0;
            slots[3u * entry + 1u] = sum_1;
            slots[3u * entry + 2u] = sum_2;
        }
    }
    if (!is_last_chunk()) {
        for (var p = thread; p < 256u; p += 64u) {
            let centre = pixel_centre(tile, job.tiles_x, p);
            if (centre.x < f32(job.width) && centre.y < f32(job.height)) {
                let at = u32(centre.y) * job.width + u32(centre.x);
                pixels[at].w = transmittances[p];
                pixels[job.width * job.height + at].w = gradients[p].w;
            }
        }
        return;
    }
    // Slots of entries that no pixel has used.
    for (var at = max(lo, end) + thread; at < hi; at += 64u) {
        let entry = entries[at];
        slots[3u * entry] = vec4<f32>(0.0);
        slots[3u * entry + 1u] = vec4<f32>(0.0);
        slots[3u * entry + 2u] = vec4<f32>(0.0);
    }
}
