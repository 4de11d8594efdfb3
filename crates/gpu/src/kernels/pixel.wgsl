// The arithmetic of one splat at one pixel, shared by `cap`, `blend` and `blend_vjp`.

/// The base-2 logarithm of alpha before its thresholds: `(A dx + B dy) dx + C dy² + L`, the offset from the mean to the
/// pixel. `a` = (x, y, A, B), `b` = (C, L, ..).
fn exponent_at(a: vec4<f32>, b: vec4<f32>, offset: vec2<f32>) -> f32 {
    let along_x = fma(a.w, offset.y, a.z * offset.x);
    let along_y = fma(b.x * offset.y, offset.y, b.y);
    return fma(along_x, offset.x, along_y);
}

/// Centre of a pixel of a tile, px; pixels are numbered along rows of 16.
fn pixel_centre(tile: u32, tiles_x: u32, pixel: u32) -> vec2<f32> {
    let x = (tile % tiles_x) * TILE_SIZE + pixel % TILE_SIZE;
    let y = (tile / tiles_x) * TILE_SIZE + pixel / TILE_SIZE;
    return vec2<f32>(f32(x) + 0.5, f32(y) + 0.5);
}
