// Writes the entries of each splat in the band, row by row of tiles: key = tile, value = index of the entry. It covers
// the rectangle that was counted.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> boxes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read> offsets: array<u32>;
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;
@group(0) @binding(5) var<storage, read_write> values: array<u32>;
@group(0) @binding(6) var<storage, read_write> entry_splats: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let rank = group_index(group) * 256u + thread;
    if (rank >= job.visible) { return; }
    let splat = order[rank];
    let box = boxes[splat];
    let x0 = box.x & 0xffffu;
    let rows = rows_in_band(box);
    let width = box.y & 0xffffu;
    var entry = offsets[rank];
    for (var y = rows.x; y < rows.x + rows.y; y++) {
        for (var x = x0; x < x0 + width; x++) {
            keys[entry] = y * job.tiles_x + x;
            values[entry] = entry;
            entry_splats[entry] = splat;
            entry++;
        }
    }
}
