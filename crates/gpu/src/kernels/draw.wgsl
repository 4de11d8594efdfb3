// Draws by weight: a random number below the sum of all weights is located in their prefix sums. `relocate` draws for
// dead splats, `grow` for new ones.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> prefix: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> records: array<u32>;
@group(0) @binding(4) var<storage, read_write> marks: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> draws: array<atomic<u32>>;
// For existing splats: whether they stay; for new ones: the splat that was drawn.
@group(0) @binding(6) var<storage, read_write> places: array<u32>;

/// The first row whose prefix sum is greater, so that a row without weight is never drawn.
fn owner(target_sum: vec2<u32>) -> u32 {
    var low = 0u;
    var high = job.visible;
    for (var round = 0u; round < 32u && low < high; round++) {
        let middle = (low + high) / 2u;
        if (is_less_wide(target_sum, prefix[middle])) { high = middle; } else { low = middle + 1u; }
    }
    return low;
}

fn drawn(stream: u32, id: u32) -> u32 {
    let seed = vec2<u32>(rule.seed_low, rule.seed_high);
    let words = philox(seed, stream, vec2<u32>(rule.step_low, rule.step_high), id);
    // The high half of a product of 64-bit numbers is below the total.
    let product = product_of_wide(words.yx, vec2<u32>(rule.total_low, rule.total_high));
    let source = owner(product.zw);
    atomicAdd(&draws[source], 1u);
    return source;
}

@compute @workgroup_size(256)
fn relocate(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.capacity) { return; }
    if (i >= job.splats) {
        // A scan reads whole vectors.
        places[i] = 0u;
        return;
    }
    let decision = marks[i].x;
    places[i] = select(1u, 0u, decision == PRUNE);
    if (decision == MOVE && (rule.total_low | rule.total_high) != 0u) { marks[i].w = drawn(STREAM_RELOCATE, records[i]); }
}

@compute @workgroup_size(256)
fn grow(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let k = group_index(group) * 256u + thread;
    if (k >= rule.added) { return; }
    places[k] = drawn(STREAM_ADD, rule.first_id + k);
}
