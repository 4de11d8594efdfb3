// Number of tiles of each visible splat in the band, in depth order; the scan converts it to positions of their
// entries.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> boxes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read_write> offsets: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let rank = group_index(group) * 256u + thread;
    if (rank < job.visible) {
        let box = boxes[order[rank]];
        offsets[rank] = (box.y & 0xffffu) * rows_in_band(box).y;
    } else if (rank < job.visible + 4u) {
        offsets[rank] = 0u;
    }
}
