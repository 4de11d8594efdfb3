// The correction of an image's colours: gains with vignetting, as `gausset_metrics`.
//
//     corrected_c = min(1, exp(g_c) v(r²) colour_c),  v = max(0.05, 1 + a1 r² + a2 r⁴ + a3 r⁶)

const DARKEST = 0.05;

fn correction_value(at: u32) -> f32 {
    return bitcast<f32>(corrections[at]);
}

fn has_gain() -> bool {
    return job.gain_row.x != NOWHERE || job.vignetting_row.x != NOWHERE;
}

/// Gain of a channel, without vignetting.
fn gain_of(channel: u32) -> f32 {
    if (job.gain_row.x == NOWHERE) { return 1.0; }
    return exp(correction_value(job.gain_row.x + channel));
}

/// r², and the vignetting polynomial before its lower bound.
fn vignetting_at(x: u32, y: u32) -> vec2<f32> {
    if (job.vignetting_row.x == NOWHERE) { return vec2<f32>(0.0, 1.0); }
    let d = vec2<f32>(f32(x) + 0.5, f32(y) + 0.5) - job.lens.zw;
    let square = dot(d, d) * job.vignetting_scale;
    let a1 = correction_value(job.vignetting_row.x);
    let a2 = correction_value(job.vignetting_row.x + 1u);
    let a3 = correction_value(job.vignetting_row.x + 2u);
    return vec2<f32>(square, fma(square, fma(square, fma(square, a3, a2), a1), 1.0));
}

/// A channel of the corrected picture at a pixel.
fn corrected(x: u32, y: u32, channel: u32) -> f32 {
    let at = 4u * (y * job.width + x);
    var value = pixels[at + channel];
    if (has_gain()) {
        value *= gain_of(channel) * max(vignetting_at(x, y).y, DARKEST);
        // NaN stays NaN, so that the loss shows it.
        if (value > 1.0) { value = 1.0; }
    }
    return value;
}

/// Whether a pixel counts in the loss.
fn is_valid(x: u32, y: u32) -> bool {
    if ((job.flags & FLAG_MASK) == 0u) { return true; }
    let at = y * job.width + x;
    return ((picture[job.width * job.height + at / 32u] >> (at % 32u)) & 1u) == 1u;
}

/// The pixel of a thread of a tile: its position, whether it is inside the image, whether it counts.
struct Place {
    tile: u32,
    corner: vec2<u32>,
    local: vec2<u32>,
    at: vec2<u32>,
    inside: bool,
    counts: bool,
}

fn place_of(tile: u32, thread: u32) -> Place {
    let corner = vec2<u32>(tile % job.tiles_x, tile / job.tiles_x) * TILE_SIZE;
    let local = vec2<u32>(thread % TILE_SIZE, thread / TILE_SIZE);
    let at = corner + local;
    let inside = at.x < job.width && at.y < job.height;
    let counts = inside && is_valid(min(at.x, job.width - 1u), min(at.y, job.height - 1u));
    return Place(tile, corner, local, at, inside, counts);
}

/// Render and target at a pixel; where the pixel does not count, both are the target. 0 outside the image.
fn pair_at(x: i32, y: i32, channel: u32) -> vec2<f32> {
    if (x < 0 || y < 0 || x >= i32(job.width) || y >= i32(job.height)) { return vec2<f32>(0.0); }
    let t = truth(u32(x), u32(y), channel);
    if (!is_valid(u32(x), u32(y))) { return vec2<f32>(t); }
    return vec2<f32>(corrected(u32(x), u32(y), channel), t);
}

/// Taps of the window by their distance from its centre. Sums run from the smallest to the largest tap, as on the CPU:
/// the variance of even colours is the rounding difference of two large numbers.
fn tap(k: u32) -> f32 {
    var value = SSIM_TAP_0;
    if (k == 1u) { value = SSIM_TAP_1; }
    if (k == 2u) { value = SSIM_TAP_2; }
    if (k == 3u) { value = SSIM_TAP_3; }
    if (k == 4u) { value = SSIM_TAP_4; }
    if (k == 5u) { value = SSIM_TAP_5; }
    return value;
}
