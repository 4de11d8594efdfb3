// Exclusive prefix sum of u32 in three dispatches: `reduce`, `spine`, `down`; or in one workgroup: `alone`.
//
// Blocks of 4096 values, 16 for each of 256 threads; no workgroup waits for another. Values between the length and the
// next multiple of 4 must be 0. After `spine` the total is stored after the sums of the blocks. Sums saturate: a value
// that is too large stays too large.

// The length: 0 = visible splats, 1 = digit counts of their sort, 2 = digit counts of the sort of entries.
override LENGTH: u32 = 0u;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read_write> data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> partials: array<u32>;

var<workgroup> shared_words: array<u32, 256>;

fn item_count() -> u32 {
    if (LENGTH == 0u) { return job.visible; }
    if (LENGTH == 1u) { return 256u * ((job.visible + SCAN_BLOCK - 1u) / SCAN_BLOCK); }
    return 256u * ((job.entries + SCAN_BLOCK - 1u) / SCAN_BLOCK);
}

fn add_capped(a: u32, b: u32) -> u32 {
    let sum = a + b;
    return select(sum, 0xffffffffu, sum < a);
}

fn sum_of(v: vec4<u32>) -> u32 {
    return add_capped(add_capped(v.x, v.y), add_capped(v.z, v.w));
}

/// Sum of the values before this thread's, over the workgroup; `shared_words[255]` is the total afterwards.
fn before(thread: u32, value: u32) -> u32 {
    shared_words[thread] = value;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach = reach << 1u) {
        var sum = shared_words[thread];
        if (thread >= reach) { sum = add_capped(sum, shared_words[thread - reach]); }
        workgroupBarrier();
        shared_words[thread] = sum;
        workgroupBarrier();
    }
    if (thread == 0u) { return 0u; }
    return shared_words[thread - 1u];
}

@compute @workgroup_size(256)
fn reduce(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let vectors = (item_count() + 3u) / 4u;
    let block = group_index(group);
    var sum = 0u;
    for (var k = 0u; k < 4u; k++) {
        let at = block * 1024u + k * 256u + thread;
        if (at < vectors) { sum = add_capped(sum, sum_of(data[at])); }
    }
    shared_words[thread] = sum;
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { shared_words[thread] = add_capped(shared_words[thread], shared_words[thread + reach]); }
        workgroupBarrier();
    }
    if (thread == 0u && block * SCAN_BLOCK < item_count()) { partials[block] = shared_words[0]; }
}

@compute @workgroup_size(256)
fn spine(@builtin(local_invocation_index) thread: u32) {
    let blocks = (item_count() + SCAN_BLOCK - 1u) / SCAN_BLOCK;
    var carry = 0u;
    for (var first = 0u; first < blocks; first += 256u) {
        let at = first + thread;
        var value = 0u;
        if (at < blocks) { value = partials[at]; }
        let sum = before(thread, value);
        if (at < blocks) { partials[at] = add_capped(carry, sum); }
        carry = add_capped(carry, shared_words[255]);
        workgroupBarrier();
    }
    if (thread == 0u) { partials[blocks] = carry; }
}

/// Writes the prefix sums of the four vectors of a thread; `start` is the sum before the block.
fn write(thread: u32, block: u32, vectors: u32, start: u32) {
    let at = block * 1024u + thread * 4u;
    var v0 = vec4<u32>(0u);
    var v1 = vec4<u32>(0u);
    var v2 = vec4<u32>(0u);
    var v3 = vec4<u32>(0u);
    if (at < vectors) { v0 = data[at]; }
    if (at + 1u < vectors) { v1 = data[at + 1u]; }
    if (at + 2u < vectors) { v2 = data[at + 2u]; }
    if (at + 3u < vectors) { v3 = data[at + 3u]; }
    let sums = vec4<u32>(sum_of(v0), sum_of(v1), sum_of(v2), sum_of(v3));
    let s0 = start + before(thread, sum_of(sums));
    let s1 = s0 + sums.x;
    let s2 = s1 + sums.y;
    let s3 = s2 + sums.z;
    if (at < vectors) { data[at] = s0 + vec4<u32>(0u, v0.x, v0.x + v0.y, v0.x + v0.y + v0.z); }
    if (at + 1u < vectors) { data[at + 1u] = s1 + vec4<u32>(0u, v1.x, v1.x + v1.y, v1.x + v1.y + v1.z); }
    if (at + 2u < vectors) { data[at + 2u] = s2 + vec4<u32>(0u, v2.x, v2.x + v2.y, v2.x + v2.y + v2.z); }
    if (at + 3u < vectors) { data[at + 3u] = s3 + vec4<u32>(0u, v3.x, v3.x + v3.y, v3.x + v3.y + v3.z); }
}

@compute @workgroup_size(256)
fn down(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    var start = 0u;
    if (block * SCAN_BLOCK < item_count()) { start = partials[block]; }
    write(thread, block, (item_count() + 3u) / 4u, start);
}

/// All blocks one after another, for lengths at which three dispatches would mostly wait.
@compute @workgroup_size(256)
fn alone(@builtin(local_invocation_index) thread: u32) {
    let blocks = (item_count() + SCAN_BLOCK - 1u) / SCAN_BLOCK;
    var carry = 0u;
    for (var block = 0u; block < blocks; block++) {
        write(thread, block, (item_count() + 3u) / 4u, carry);
        carry += shared_words[255];
        workgroupBarrier();
    }
}
