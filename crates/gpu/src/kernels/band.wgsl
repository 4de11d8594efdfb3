// The band of tile rows whose lists currently exist.

/// The tile of a workgroup.
fn tile_of(group: vec3<u32>) -> u32 {
    return job.band_top * job.tiles_x + group_index(group);
}

/// One past the last tile.
fn band_end() -> u32 {
    return job.band_bottom * job.tiles_x;
}

/// The tile rows of a splat's box inside the band: first and number.
fn rows_in_band(box: vec4<u32>) -> vec2<u32> {
    let first = max(box.x >> 16u, job.band_top);
    let end = min((box.x >> 16u) + (box.y >> 16u), job.band_bottom);
    return vec2<u32>(first, max(end, first) - first);
}
