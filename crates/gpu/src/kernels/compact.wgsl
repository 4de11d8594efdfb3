// Keys and numbers of the visible splats, in the order of splats: the input of the depth sort.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> boxes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> partials: array<u32>;
@group(0) @binding(3) var<storage, read_write> keys: array<u32>;
@group(0) @binding(4) var<storage, read_write> order: array<u32>;

var<workgroup> ranks: array<u32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    let i = block * 256u + thread;
    var box = vec4<u32>(0u);
    if (i < job.splats) { box = boxes[i]; }
    let visible = select(0u, 1u, box.y != 0u);
    ranks[thread] = visible;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach = reach << 1u) {
        var value = ranks[thread];
        if (thread >= reach) { value += ranks[thread - reach]; }
        workgroupBarrier();
        ranks[thread] = value;
        workgroupBarrier();
    }
    if (visible == 1u) {
        let place = partials[block] + ranks[thread] - 1u;
        keys[place] = box.z;
        order[place] = i;
    }
}
