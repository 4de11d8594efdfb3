// For tests: the update of arbitrary values, four at a time.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read_write> values: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> moments1: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> moments2: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> gradients: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let corrections = vec2<f32>(job.dense_first, job.dense_second);
    let a = adam(values[i], moments1[i], moments2[i], gradients[i], vec4<f32>(job.rate_means), corrections);
    values[i] = a.parameter;
    moments1[i] = a.moment1;
    moments2[i] = a.moment2;
}
