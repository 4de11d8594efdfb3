// Clears the evidence about all splats, to which `follow` adds.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read_write> evidence: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    // Evidence of rows that are done stays.
    if (i >= job.splats || job.done_rows > 0u) { return; }
    for (var plane = 0u; plane < 3u; plane++) { evidence[plane * job.capacity + i] = 0u; }
}
