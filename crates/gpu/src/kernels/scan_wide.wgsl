// Inclusive prefix sum of the weights of marks, in 64 bits: `reduce`, `spine`, `down`, like `scan.wgsl`. Afterwards the
// total is stored after the sums of the blocks, and the draw counts of all rows are 0.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> marks: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> partials: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> prefix: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> draws: array<u32>;

const NONE = vec2<u32>(0u);

var<workgroup> shared_sums: array<vec2<u32>, 256>;

fn blocks_in_all() -> u32 {
    return (job.visible + SCAN_BLOCK - 1u) / SCAN_BLOCK;
}

fn weight(i: u32) -> vec2<u32> {
    if (i >= job.visible) { return NONE; }
    return vec2<u32>(marks[i].y, 0u);
}

/// Sum of the values before this thread's, over the workgroup; `shared_sums[255]` is the total afterwards.
fn before(thread: u32, value: vec2<u32>) -> vec2<u32> {
    shared_sums[thread] = value;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach = reach << 1u) {
        var sum = shared_sums[thread];
        if (thread >= reach) { sum = add_wide(sum, shared_sums[thread - reach]); }
        workgroupBarrier();
        shared_sums[thread] = sum;
        workgroupBarrier();
    }
    if (thread == 0u) { return NONE; }
    return shared_sums[thread - 1u];
}

fn sum_of_block(thread: u32, block: u32) -> vec2<u32> {
    var sum = NONE;
    for (var k = 0u; k < 16u; k++) { sum = add_wide(sum, weight(block * SCAN_BLOCK + thread * 16u + k)); }
    return sum;
}

@compute @workgroup_size(256)
fn reduce(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    let sum = before(thread, sum_of_block(thread, block));
    if (thread == 255u && block < blocks_in_all()) { partials[block] = shared_sums[255]; }
}

@compute @workgroup_size(256)
fn spine(@builtin(local_invocation_index) thread: u32) {
    let blocks = blocks_in_all();
    var carry = NONE;
    for (var first = 0u; first < blocks; first += 256u) {
        let at = first + thread;
        var value = NONE;
        if (at < blocks) { value = partials[at]; }
        let sum = before(thread, value);
        if (at < blocks) { partials[at] = add_wide(carry, sum); }
        carry = add_wide(carry, shared_sums[255]);
        workgroupBarrier();
    }
    if (thread == 0u) { partials[blocks] = carry; }
}

@compute @workgroup_size(256)
fn down(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    let own = before(thread, sum_of_block(thread, block));
    if (block >= blocks_in_all()) { return; }
    var sum = add_wide(partials[block], own);
    for (var k = 0u; k < 16u; k++) {
        let i = block * SCAN_BLOCK + thread * 16u + k;
        if (i < job.visible) {
            sum = add_wide(sum, weight(i));
            prefix[i] = sum;
            draws[i] = 0u;
        }
    }
}
