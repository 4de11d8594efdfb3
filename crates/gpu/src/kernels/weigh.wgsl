// Weight and longest axis of each row, before growth draws from the rows.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> geometry: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> marks: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let row = group_index(group) * 256u + thread;
    if (row >= job.visible) { return; }
    let key = rank_of_longest(geometry[2u * job.capacity + row].xyz);
    marks[row] = vec4<u32>(KEEP, weight_of(bitcast<f32>(geometry[row].w)), key, 0u);
}
