// Stage `loss`, first half: (1 - w) L1 + w (1 - SSIM) over the valid pixels, and the derivatives of S (Wang et al. 2004).
//
// With the windowed moments μx, μy, q = K(x² + y²), p = K(x y):
//     A1 = 2 μx μy + C1,  A2 = 2 (p - μx μy) + C2,  B1 = μx² + μy² + C1,  B2 = max(0, q - μx² - μy²) + C2,
//     S = A1 A2 / (B1 B2);  halves of dS: by K x: (μy (A2 - A1) - μx S (B2 - B1)) / (B1 B2),  by K x²: -S / B2,
//     by K x y: A1 / (B1 B2)

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> pixels: array<f32>;
@group(0) @binding(2) var<storage, read> picture: array<u32>;
@group(0) @binding(3) var<storage, read> corrections: array<u32>;
// [channel][derivative][pixel]
@group(0) @binding(4) var<storage, read_write> derivatives: array<f32>;
// Bits of Σ |x - y| and Σ S of each tile.
@group(0) @binding(5) var<storage, read_write> partials: array<u32>;

// 26 x 26 pixels: the tile and a margin of 5.
var<workgroup> xs: array<f32, 676>;
var<workgroup> ys: array<f32, 676>;
// 16 x 26, filtered down: μx, μy, q, p.
var<workgroup> filtered: array<vec4<f32>, 416>;
var<workgroup> totals: array<vec2<f32>, 256>;

fn moments(at: u32) -> vec4<f32> {
    let x = xs[at];
    let y = ys[at];
    return vec4<f32>(x, y, fma(x, x, y * y), x * y);
}

/// Half derivatives of S with respect to (μx, q, p), and S, at μx, μy, q, p.
fn similarity(m: vec4<f32>) -> vec4<f32> {
    let a1 = fma(m.x * m.y, 2.0, SSIM_C1);
    let a2 = fma(fma(-m.x, m.y, m.w), 2.0, SSIM_C2);
    let squares = fma(m.x, m.x, m.y * m.y);
    let b1 = squares + SSIM_C1;
    var spread = m.z - squares;
    if (spread < 0.0) { spread = 0.0; }
    let b2 = spread + SSIM_C2;
    let reciprocal = 1.0 / (b1 * b2);
    let s = a1 * a2 * reciprocal;
    let by_mean = fma(-(m.x * s), b2 - b1, m.y * (a2 - a1)) * reciprocal;
    return vec4<f32>(by_mean, -(s * b1 * reciprocal), a1 * reciprocal, s);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let here = place_of(group_index(group), thread);
    let with_ssim = (job.flags & FLAG_SSIM) != 0u;
    var sums = vec2<f32>(0.0);
    for (var channel = 0u; channel < 3u; channel++) {
        for (var k = thread; k < 676u; k += 256u) {
            let pair = pair_at(i32(here.corner.x + k % 26u) - 5, i32(here.corner.y + k / 26u) - 5, channel);
            xs[k] = pair.x;
            ys[k] = pair.y;
        }
        workgroupBarrier();
        if (with_ssim) {
            // Filters down the 26 columns including the margin: filtered[column + 26 row].
            for (var k = thread; k < 416u; k += 256u) {
                let middle = k + 130u;
                var sum = vec4<f32>(0.0);
                for (var t = 5u; t >= 1u; t--) {
                    sum = fma(vec4<f32>(tap(t)), moments(middle - 26u * t) + moments(middle + 26u * t), sum);
                }
                sum = fma(vec4<f32>(tap(0u)), moments(middle), sum);
                filtered[k] = sum;
            }
        }
        workgroupBarrier();
        if (here.inside) {
            let middle = (here.local.y + 5u) * 26u + here.local.x + 5u;
            // Selected, not multiplied: pixels that do not count may hold any value.
            if (here.counts) { sums.x += abs(xs[middle] - ys[middle]); }
            if (with_ssim) {
                let place = here.local.y * 26u + here.local.x + 5u;
                var m = vec4<f32>(0.0);
                for (var t = 5u; t >= 1u; t--) {
                    m = fma(vec4<f32>(tap(t)), filtered[place - t] + filtered[place + t], m);
                }
                m = fma(vec4<f32>(tap(0u)), filtered[place], m);
                var half = vec3<f32>(0.0);
                if (here.counts) {
                    let similar = similarity(m);
                    half = similar.xyz;
                    sums.y += similar.w;
                }
                let n = job.width * job.height;
                let out = 3u * channel * n + here.at.y * job.width + here.at.x;
                derivatives[out] = half.x;
                derivatives[out + n] = half.y;
                derivatives[out + 2u * n] = half.z;
            }
        }
        workgroupBarrier();
    }
    totals[thread] = sums;
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { totals[thread] += totals[thread + reach]; }
        workgroupBarrier();
    }
    if (thread == 0u && here.tile < job.tiles) {
        partials[2u * here.tile] = bitcast<u32>(totals[0].x);
        partials[2u * here.tile + 1u] = bitcast<u32>(totals[0].y);
    }
}
