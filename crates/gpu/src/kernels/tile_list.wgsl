// The list of a workgroup's tile, shared by `cap` and `blend`.

var<workgroup> list_bounds: vec2<u32>;

/// First entry of a tile and one past its last, which is read from word `last` of its range; the same in each thread.
fn list_of(tile: u32, thread: u32, last: u32) -> vec2<u32> {
    if (thread == 0u) {
        list_bounds = vec2<u32>(0u);
        if (tile < band_end()) { list_bounds = vec2<u32>(ranges[4u * tile], ranges[4u * tile + last]); }
    }
    return workgroupUniformLoad(&list_bounds);
}
