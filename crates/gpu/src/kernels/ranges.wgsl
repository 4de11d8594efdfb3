// Finds the part of the sorted entries that belongs to each tile, where neighbours differ. Ranges are initialised to 0.
//
// A range is four words: first entry, one past the last, one past the last that is blended (`cap`), one past the last
// that any pixel has used (`blend`).

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> ranges: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let at = group_index(group) * 256u + thread;
    if (at >= job.entries) { return; }
    let tile = keys[at];
    if (at == 0u || keys[max(at, 1u) - 1u] != tile) { ranges[4u * tile] = at; }
    if (at == job.entries - 1u || keys[min(at + 1u, job.entries - 1u)] != tile) {
        ranges[4u * tile + 1u] = at + 1u;
        ranges[4u * tile + 2u] = at + 1u;
    }
}
