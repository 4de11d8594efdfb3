// The keys of marks with their indices: the input of a sort.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> marks: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;
@group(0) @binding(3) var<storage, read_write> order: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.visible) { return; }
    keys[i] = marks[i].z;
    order[i] = i;
}
