// Counts splats that are dead because a parameter is not finite, after the update.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> splats: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> sh_0: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let stride = job.capacity;
    let alive = are_finite(splats[i]) && are_finite(splats[stride + i]) && are_finite(splats[2u * stride + i])
        && are_finite(vec4<f32>(sh_0[i].xyz, 0.0));
    if (!alive) { atomicAdd(&status[STATUS_DEAD], 1u); }
}
