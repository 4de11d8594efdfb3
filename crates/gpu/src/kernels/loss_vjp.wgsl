// Stage `loss`, second half: the gradient of the render and of its colour correction.
//
//     dL/dx = l1 sign(x - y) + 2 ssim (K h_μ + x K h_q + y K h_p),  h the half derivatives of `loss`
//
// then back through the correction. Where a gain is clamped at 1, only a gradient that makes the pixel darker is
// propagated.

@group(0) @binding(0) var<uniform> job: Job;
// Plane 0: colour and T_end; plane 1: the gradient, written here.
@group(0) @binding(1) var<storage, read_write> pixels: array<f32>;
@group(0) @binding(2) var<storage, read> picture: array<u32>;
@group(0) @binding(3) var<storage, read> corrections: array<u32>;
@group(0) @binding(4) var<storage, read> derivatives: array<f32>;
// Sums of each tile: three gains and three coefficients of the vignetting.
@group(0) @binding(5) var<storage, read_write> tile_sums: array<f32>;

// Plane by plane: a vec3 would take the space of a vec4.
var<workgroup> halves: array<f32, 2028>;
var<workgroup> filtered: array<f32, 1248>;
var<workgroup> totals: array<f32, 256>;

/// Half derivatives at a pixel, 0 outside the image.
fn half_at(x: i32, y: i32, channel: u32) -> vec3<f32> {
    if (x < 0 || y < 0 || x >= i32(job.width) || y >= i32(job.height)) { return vec3<f32>(0.0); }
    let n = job.width * job.height;
    let at = 3u * channel * n + u32(y) * job.width + u32(x);
    return vec3<f32>(derivatives[at], derivatives[at + n], derivatives[at + 2u * n]);
}

fn half_in_tile(at: u32) -> vec3<f32> {
    return vec3<f32>(halves[at], halves[676u + at], halves[1352u + at]);
}

fn filtered_in_tile(at: u32) -> vec3<f32> {
    return vec3<f32>(filtered[at], filtered[416u + at], filtered[832u + at]);
}

/// Sums a value over the workgroup and writes it as one of the tile's sums.
fn sum_up(thread: u32, tile: u32, index: u32, value: f32) {
    totals[thread] = value;
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { totals[thread] += totals[thread + reach]; }
        workgroupBarrier();
    }
    if (thread == 0u && tile < job.tiles) { tile_sums[TILE_SUMS * tile + index] = totals[0]; }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let here = place_of(group_index(group), thread);
    let with_ssim = (job.flags & FLAG_SSIM) != 0u;
    var gradient = vec3<f32>(0.0);
    var value = vec3<f32>(0.0);
    for (var channel = 0u; channel < 3u; channel++) {
        if (with_ssim) {
            for (var k = thread; k < 676u; k += 256u) {
                let half = half_at(i32(here.corner.x + k % 26u) - 5, i32(here.corner.y + k / 26u) - 5, channel);
                halves[k] = half.x;
                halves[676u + k] = half.y;
                halves[1352u + k] = half.z;
            }
        }
        workgroupBarrier();
        if (with_ssim) {
            for (var k = thread; k < 416u; k += 256u) {
                let middle = k + 130u;
                var sum = vec3<f32>(0.0);
                for (var t = 5u; t >= 1u; t--) {
                    sum = fma(vec3<f32>(tap(t)), half_in_tile(middle - 26u * t) + half_in_tile(middle + 26u * t), sum);
                }
                sum = fma(vec3<f32>(tap(0u)), half_in_tile(middle), sum);
                filtered[k] = sum.x;
                filtered[416u + k] = sum.y;
                filtered[832u + k] = sum.z;
            }
        }
        workgroupBarrier();
        if (here.counts) {
            let pair = pair_at(i32(here.at.x), i32(here.at.y), channel);
            let difference = pair.x - pair.y;
            var g = 0.0;
            if (difference > 0.0) { g = job.l1_factor; }
            if (difference < 0.0) { g = -job.l1_factor; }
            if (with_ssim) {
                let place = here.local.y * 26u + here.local.x + 5u;
                var h = vec3<f32>(0.0);
                for (var t = 5u; t >= 1u; t--) {
                    h = fma(vec3<f32>(tap(t)), filtered_in_tile(place - t) + filtered_in_tile(place + t), h);
                }
                h = fma(vec3<f32>(tap(0u)), filtered_in_tile(place), h);
                g = fma(fma(pair.y, h.z, fma(pair.x, h.y, h.x)), 2.0 * job.ssim_factor, g);
            }
            let this_one = vec3<bool>(channel == 0u, channel == 1u, channel == 2u);
            gradient = select(gradient, vec3<f32>(g), this_one);
            value = select(value, vec3<f32>(pair.x), this_one);
        }
        workgroupBarrier();
    }
    var out = gradient;
    if (has_gain()) {
        let goes_on = (value < vec3<f32>(1.0)) | (gradient > vec3<f32>(0.0));
        let upstream = select(vec3<f32>(0.0), gradient, goes_on);
        let product = upstream * value;
        let polynomial = vignetting_at(here.at.x, here.at.y);
        let vignetting = max(polynomial.y, DARKEST);
        // At its lower bound the vignetting has no gradient.
        let share = select(0.0, (product.x + product.y + product.z) / vignetting, polynomial.y > DARKEST);
        sum_up(thread, here.tile, 0u, product.x);
        sum_up(thread, here.tile, 1u, product.y);
        sum_up(thread, here.tile, 2u, product.z);
        sum_up(thread, here.tile, 3u, share * polynomial.x);
        sum_up(thread, here.tile, 4u, share * polynomial.x * polynomial.x);
        sum_up(thread, here.tile, 5u, share * polynomial.x * polynomial.x * polynomial.x);
        out = upstream * vec3<f32>(gain_of(0u), gain_of(1u), gain_of(2u)) * vignetting;
    }
    if (here.inside) {
        let p = 4u * (job.width * job.height + here.at.y * job.width + here.at.x);
        pixels[p] = out.x;
        pixels[p + 1u] = out.y;
        pixels[p + 2u] = out.z;
        pixels[p + 3u] = 0.0;
    }
}
