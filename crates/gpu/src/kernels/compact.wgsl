// Keys and indices of the visible splats, in the order of splats: the input of the depth sort.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> boxes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> partials: array<u32>;
@group(0) @binding(3) var<storage, read_write> keys: array<u32>;
@group(0) @binding(4) var<storage, read_write> order: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    let i = block * 256u + thread;
    var box = vec4<u32>(0u);
    if (i < job.splats) { box = boxes[i]; }
    let visible = select(0u, 1u, box.y != 0u);
    let rank = rank_of(thread, visible);
    if (visible == 1u) {
        let place = partials[block] + rank;
        keys[place] = box.z;
        order[place] = i;
    }
}
