// If the capacity is too small, only the splats with the largest mean statistic grow.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read_write> marks: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> status: array<atomic<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let rank = group_index(group) * 256u + thread;
    if (rank >= job.visible || rank < rule.room) { return; }
    let i = order[rank];
    let decision = marks[i].x;
    if (decision != CLONE && decision != SPLIT) { return; }
    marks[i].x = KEEP;
    if (decision == CLONE) { atomicSub(&status[RULE_CLONED], 1u); } else { atomicSub(&status[RULE_SPLIT], 1u); }
}
