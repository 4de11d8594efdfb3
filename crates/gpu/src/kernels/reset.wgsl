// Lowers every opacity and zeroes the moments of the logits. A logit that is not finite is kept: its splat is dead and
// must not come back.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read_write> splats: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> moments1: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> moments2: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let highest = bitcast<u32>(rule.reset_logit);
    let logit = splats[i].w;
    if (are_finite_bits(vec4<u32>(logit, 0u, 0u, 0u)) && is_above(logit, highest)) { splats[i].w = highest; }
    moments1[i].w = 0u;
    moments2[i].w = 0u;
}
