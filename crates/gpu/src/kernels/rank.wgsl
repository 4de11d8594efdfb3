// Which of the visible splats of a workgroup a thread's is.

var<workgroup> ranks: array<u32, 256>;

/// How many threads before this one have a 1.
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
