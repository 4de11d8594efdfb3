// One pass of a stable radix sort by 8 bits of u32 keys with u32 values: `histogram`, a scan of the counts, `scatter`.
//
// Blocks of 4096 keys, 16 rounds of 256. Counts are digit-major, `counts[digit · blocks + block]`, so that one prefix
// sum gives all target positions. In a round each thread sets its bit in a mask of its digit; a rank is the number of
// bits below. The result does not depend on the order of atomics: it is the stable order by construction.

// The keys: 0 = visible splats, 1 = entries.
override KEYS: u32 = 0u;
override SHIFT: u32 = 0u;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> keys_in: array<u32>;
@group(0) @binding(2) var<storage, read> values_in: array<u32>;
@group(0) @binding(3) var<storage, read_write> keys_out: array<u32>;
@group(0) @binding(4) var<storage, read_write> values_out: array<u32>;
@group(0) @binding(5) var<storage, read_write> counts: array<u32>;

const ROUNDS = 16u;

var<workgroup> digits: array<atomic<u32>, 256>;
// Eight words of 32 threads for each digit.
var<workgroup> masks: array<atomic<u32>, 2048>;
var<workgroup> places: array<u32, 256>;

fn key_count() -> u32 {
    if (KEYS == 0u) { return job.visible; }
    return job.entries;
}

fn digit_of(key: u32) -> u32 {
    return (key >> SHIFT) & 255u;
}

@compute @workgroup_size(256)
fn histogram(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let n = key_count();
    let blocks = (n + SCAN_BLOCK - 1u) / SCAN_BLOCK;
    let block = group_index(group);
    atomicStore(&digits[thread], 0u);
    workgroupBarrier();
    for (var round = 0u; round < ROUNDS; round++) {
        let at = block * SCAN_BLOCK + round * 256u + thread;
        if (at < n) { atomicAdd(&digits[digit_of(keys_in[at])], 1u); }
    }
    workgroupBarrier();
    if (block < blocks) { counts[thread * blocks + block] = atomicLoad(&digits[thread]); }
}

@compute @workgroup_size(256)
fn scatter(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let n = key_count();
    let blocks = (n + SCAN_BLOCK - 1u) / SCAN_BLOCK;
    let block = group_index(group);
    if (block < blocks) { places[thread] = counts[thread * blocks + block]; }
    for (var word = 0u; word < 8u; word++) { atomicStore(&masks[word * 256u + thread], 0u); }
    workgroupBarrier();
    let own_word = thread >> 5u;
    let bit = 1u << (thread & 31u);
    for (var round = 0u; round < ROUNDS; round++) {
        let at = block * SCAN_BLOCK + round * 256u + thread;
        let there = at < n;
        var key = 0u;
        var value = 0u;
        if (there) {
            key = keys_in[at];
            value = values_in[at];
        }
        let digit = digit_of(key);
        if (there) { atomicOr(&masks[own_word * 256u + digit], bit); }
        workgroupBarrier();
        if (there) {
            var place = places[digit];
            for (var word = 0u; word < own_word; word++) {
                place += countOneBits(atomicLoad(&masks[word * 256u + digit]));
            }
            place += countOneBits(atomicLoad(&masks[own_word * 256u + digit]) & (bit - 1u));
            keys_out[place] = key;
            values_out[place] = value;
        }
        workgroupBarrier();
        var seen = 0u;
        for (var word = 0u; word < 8u; word++) { seen += countOneBits(atomicExchange(&masks[word * 256u + thread], 0u)); }
        places[thread] += seen;
        workgroupBarrier();
    }
}
