// Stage `blend_vjp`: gradients with respect to the screen splats, front to back with the arithmetic of `blend`.
//
// Per pixel, with the upstream gradient g of its colour, s_i = g · colour_i, and S_i is the contribution behind splat i
// (S starts as g · C of the finished pixel, and w_i s_i is subtracted at each splat):
//
//     v_i = dL/d ln α_i = w_i s_i - S_i α_i / (1 - α_i)      (0 where α is clamped or the splat is not blended)
//
// A workgroup is a tile. For each batch of four splats, the thread of each pixel computes v and w; then a thread of each
// row of pixels sums them over its columns, v also times dx and dx²; then a thread of each result sums over the rows,
// times dy and dy². All sums have a fixed order. They go to the slot of the entry: Σv, Σv dx, Σv dy, Σv dx², Σv dx dy,
// Σv dy², dL/d red, green, blue, Σ|v slope_x|, Σ|v slope_y|, 0; offsets are from the mean to the pixel.
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
@group(0) @binding(6) var<storage, read_write> slots: array<f32>;
// For each pixel dL/dalpha, dL/ddepth, and their part of S.
@group(0) @binding(7) var<storage, read> extras: array<vec4<f32>>;

// Splats that are loaded together, and those of a batch.
const LOADED: u32 = 32u;
const BATCH: u32 = 4u;
// Distance between two kinds of row sums: three more than they need, against bank conflicts.
const SUM_STRIDE: u32 = 67u;

// Screen records of the loaded splats.
var<workgroup> a: array<vec4<f32>, 32>;
var<workgroup> b: array<vec4<f32>, 32>;
var<workgroup> c: array<vec2<f32>, 32>;
// v and w of each pixel of the splats of a batch, four columns in a vector.
var<workgroup> moments: array<vec4<f32>, 256>;
var<workgroup> weights: array<vec4<f32>, 256>;
// Upstream gradients of the colour and the depth of each pixel.
var<workgroup> gradients: array<vec4<f32>, 256>;
// For each splat of a batch and each row: Σv, Σv dx, Σv dx², Σ w times the four gradients, absolute sums.
var<workgroup> row_sums: array<f32, 603>;

/// Index of four columns of a row in `moments` and `weights`, without bank conflicts between rows.
fn columns_at(splat: u32, row: u32, four: u32) -> u32 {
    return 64u * splat + 4u * row + (four ^ ((row >> 1u) & 3u));
}

/// Index of a pixel in `gradients`, likewise.
fn pixel_at(row: u32, column: u32) -> u32 {
    return 16u * row + (column ^ (row & 7u));
}

fn sum_of(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

/// Sums of v over a row of pixels.
fn sum_moments(splat: u32, at: u32, row: u32, corner: vec2<f32>) {
    let mean = a[at];
    var sum_0 = vec4<f32>(0.0);
    var sum_1 = vec4<f32>(0.0);
    var sum_2 = vec4<f32>(0.0);
    var absolute_x = vec4<f32>(0.0);
    var absolute_y = vec4<f32>(0.0);
    let dy = corner.y + f32(row) - mean.y;
    for (var four = 0u; four < 4u; four++) {
        let v = moments[columns_at(splat, row, four)];
        let dx = vec4<f32>(corner.x + f32(4u * four)) + vec4<f32>(0.0, 1.0, 2.0, 3.0) - vec4<f32>(mean.x);
        let v_dx = v * dx;
        sum_0 += v;
        sum_1 += v_dx;
        sum_2 = fma(v_dx, dx, sum_2);
        if (ABSOLUTE) {
            absolute_x += abs(v * fma(vec4<f32>(2.0 * mean.z), dx, vec4<f32>(mean.w * dy)));
            absolute_y += abs(v * fma(vec4<f32>(mean.w), dx, vec4<f32>(2.0 * b[at].x * dy)));
        }
    }
    let place = 16u * splat + row;
    row_sums[place] = sum_of(sum_0);
    row_sums[SUM_STRIDE + place] = sum_of(sum_1);
    row_sums[2u * SUM_STRIDE + place] = sum_of(sum_2);
    if (ABSOLUTE) {
        row_sums[7u * SUM_STRIDE + place] = sum_of(absolute_x);
        row_sums[8u * SUM_STRIDE + place] = sum_of(absolute_y);
    }
}

/// Sums of w times the gradients over a row of pixels.
fn sum_weights(splat: u32, row: u32) {
    var sum = vec4<f32>(0.0);
    for (var four = 0u; four < 4u; four++) {
        let w = weights[columns_at(splat, row, four)];
        sum = fma(vec4<f32>(w.x), gradients[pixel_at(row, 4u * four)], sum);
        sum = fma(vec4<f32>(w.y), gradients[pixel_at(row, 4u * four + 1u)], sum);
        sum = fma(vec4<f32>(w.z), gradients[pixel_at(row, 4u * four + 2u)], sum);
        sum = fma(vec4<f32>(w.w), gradients[pixel_at(row, 4u * four + 3u)], sum);
    }
    let place = 16u * splat + row;
    row_sums[3u * SUM_STRIDE + place] = sum.x;
    row_sums[4u * SUM_STRIDE + place] = sum.y;
    row_sums[5u * SUM_STRIDE + place] = sum.z;
    if (EXTRAS) { row_sums[6u * SUM_STRIDE + place] = sum.w; }
}

/// Value `result` of the slot of a splat: a kind of row sums times a power of dy, summed over the rows.
fn slot_value(splat: u32, at: u32, result: u32, corner_y: f32) -> f32 {
    var kind = result - 3u;
    var power = 0u;
    switch (result) {
        case 0u, 1u: { kind = result; }
        case 2u: { kind = 0u; power = 1u; }
        case 3u: { kind = 2u; }
        case 4u: { kind = 1u; power = 1u; }
        case 5u: { kind = 0u; power = 2u; }
        case 9u, 10u: {
            if (ABSOLUTE) { kind = result - 2u; } else if (EXTRAS && result == 9u) { kind = 6u; } else { return 0.0; }
        }
        case 11u: { return 0.0; }
        default: {}
    }
    let first = corner_y - a[at].y;
    var sum = 0.0;
    for (var row = 0u; row < 16u; row++) {
        let dy = first + f32(row);
        let factor = select(select(dy * dy, dy, power == 1u), 1.0, power == 0u);
        sum = fma(row_sums[kind * SUM_STRIDE + 16u * splat + row], factor, sum);
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let tile = tile_of(group);
    if (tile >= band_end()) { return; }
    let hi = ranges[4u * tile + 1u];
    let used = ranges[4u * tile + 3u];
    let part = chunk_of(ranges[4u * tile], used);
    let lo = part.x;
    let end = part.y;
    let corner = pixel_centre(tile, job.tiles_x, 0u);
    let centre = pixel_centre(tile, job.tiles_x, thread);
    let inside = centre.x < f32(job.width) && centre.y < f32(job.height);
    let at = u32(centre.y) * job.width + u32(centre.x);
    let above = job.width * job.height;
    let row = thread / TILE_SIZE;
    let column = thread % TILE_SIZE;
    var gradient = vec4<f32>(0.0);
    var of_alpha = 0.0;
    var behind = 0.0;
    var transmittance = 0.0;
    if (inside) {
        let state = pixels[above + at];
        gradient = vec4<f32>(state.xyz, 0.0);
        if (EXTRAS) {
            of_alpha = extras[at].x;
            gradient.w = extras[at].y;
        }
        if (job.chunk == 0u) {
            behind = dot(state.xyz, pixels[at].xyz);
            if (EXTRAS) { behind += extras[at].z; }
            transmittance = 1.0;
        } else {
            behind = state.w;
            transmittance = pixels[at].w;
        }
    }
    gradients[pixel_at(row, column)] = gradient;
    for (var first = lo; first < end; first += LOADED) {
        workgroupBarrier();
        if (thread < LOADED) {
            // Entries past the end: nothing of them reaches a pixel.
            var record_a = vec4<f32>(0.0);
            var record_b = vec4<f32>(0.0, -1000.0, 0.0, 0.0);
            var record_c = vec2<f32>(0.0);
            if (first + thread < end) {
                let splat = entry_splats[entries[first + thread]];
                record_a = screen[splat];
                record_b = screen[job.drawn_capacity + splat];
                record_c = screen[2u * job.drawn_capacity + splat].xy;
            }
            a[thread] = record_a;
            b[thread] = record_b;
            c[thread] = record_c;
        }
        workgroupBarrier();
        let loaded = min(LOADED, end - first);
        for (var batch = 0u; batch < loaded; batch += BATCH) {
            for (var k = 0u; k < BATCH; k++) {
                var v = 0.0;
                var weight = 0.0;
                if (transmittance > TRANSMITTANCE_STOP) {
                    let of_a = a[batch + k];
                    let of_b = b[batch + k];
                    let exponent = exponent_at(of_a, of_b, centre - of_a.xy);
                    if (exponent >= -LOG2_255) {
                        let raw = exp2(exponent);
                        let alpha = min(raw, ALPHA_MAX);
                        let next = fma(-alpha, transmittance, transmittance);
                        if (next > TRANSMITTANCE_STOP) {
                            weight = alpha * transmittance;
                            let of_c = c[batch + k];
                            var upstream = dot(vec3<f32>(of_b.zw, of_c.x), gradient.xyz);
                            if (EXTRAS) { upstream += of_alpha + gradient.w * of_c.y; }
                            let own = weight * upstream;
                            behind -= own;
                            if (raw <= ALPHA_MAX) { v = own - behind * (alpha / (1.0 - alpha)); }
                        }
                        // The transmittance continues to fall after the stop, so that nothing is blended after it.
                        transmittance = next;
                    }
                }
                let place = columns_at(k, row, column / 4u);
                moments[place][column % 4u] = v;
                weights[place][column % 4u] = weight;
            }
            workgroupBarrier();
            let splat = (thread / 16u) % BATCH;
            if (thread < 64u) {
                sum_moments(splat, batch + splat, thread % 16u, corner);
            } else if (thread < 128u) {
                sum_weights(splat, thread % 16u);
            }
            workgroupBarrier();
            // The next batch does not write the row sums before its first barrier.
            if (thread < 12u * BATCH) {
                let which = thread / 12u;
                let entry = first + batch + which;
                if (entry < end) {
                    let result = thread % 12u;
                    slots[12u * entries[entry] + result] = slot_value(which, batch + which, result, corner.y);
                }
            }
        }
    }
    if (!is_last_chunk()) {
        if (inside) {
            pixels[at].w = transmittance;
            pixels[above + at].w = behind;
        }
        return;
    }
    // Slots of entries that no pixel has used.
    for (var value = 12u * max(lo, end) + thread; value < 12u * hi; value += 256u) {
        slots[12u * entries[value / 12u] + value % 12u] = 0.0;
    }
}
