// Number of rows that each splat keeps, and of new ones that it gets; scans convert them to positions.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> marks: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> kept: array<u32>;
@group(0) @binding(3) var<storage, read_write> born: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    // Zeros up to the next whole vector, which scans read.
    if (i >= job.capacity) { return; }
    var decision = PRUNE;
    if (i < job.splats) { decision = marks[i].x; }
    kept[i] = select(0u, 1u, decision == KEEP || decision == CLONE);
    var children = 0u;
    if (decision == CLONE) { children = 1u; }
    if (decision == SPLIT) { children = 2u; }
    born[i] = children;
}
