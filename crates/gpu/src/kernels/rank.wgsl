// The rank of a thread's splat among the visible splats of its workgroup.

var<workgroup> ranks: array<u32, 256>;

/// Number of threads before this one with a 1.
fn rank_of(thread: u32, visible: u32) -> u32 {
    ranks[thread] = visible;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach = reach << 1u) {
        var value = ranks[thread];
        if (thread >= reach) { value += ranks[thread - reach]; }
        workgroupBarrier();
        ranks[thread] = value;
        workgroupBarrier();
    }
    return ranks[thread] - visible;
}
