// The decision of a density rule about each splat: as in `gausset_density::decide`, bit for bit, and which splats are
// dead.

// Relocation and growth instead of clone, split and prune.
override MCMC: bool = false;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> splats: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> records: array<u32>;
@group(0) @binding(4) var<storage, read> sh_0: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> sh_1: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> sh_2: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> sh_3: array<vec4<u32>>;
// Decision; weight in draws; sort key; position for a draw.
@group(0) @binding(8) var<storage, read_write> marks: array<vec4<u32>>;
@group(0) @binding(9) var<storage, read_write> status: array<atomic<u32>>;

var<workgroup> cloned: atomic<u32>;
var<workgroup> split: atomic<u32>;
var<workgroup> pruned: atomic<u32>;
var<workgroup> moved: atomic<u32>;

fn is_whole(i: u32) -> bool {
    let stride = job.capacity;
    var whole = true;
    for (var plane = 0u; plane < 3u; plane++) {
        let at = plane * stride + i;
        whole = whole && are_finite_bits(splats[at]) && are_finite_bits(sh_0[at]);
        if (rule.sh_blocks > 1u) { whole = whole && are_finite_bits(sh_1[at]); }
        if (rule.sh_blocks > 2u) { whole = whole && are_finite_bits(sh_2[at]); }
        if (rule.sh_blocks > 3u) { whole = whole && are_finite_bits(sh_3[at]); }
    }
    return whole;
}

fn is_any_above(log_scales: vec3<f32>, limit: f32) -> bool {
    let bits = bitcast<vec3<u32>>(log_scales);
    let limit_bits = bitcast<u32>(limit);
    return is_above(bits.x, limit_bits) || is_above(bits.y, limit_bits) || is_above(bits.z, limit_bits);
}

/// `a / b` of a positive f32 and an integer below 2^24, rounded to nearest: its bits, which increase with it.
fn ratio_bits(a: u32, b: u32) -> u32 {
    let numerator = parts_of(a);
    if ((a & 0x7f800000u) == 0x7f800000u || b == 0u) { return select(0u, 0x7f800000u, numerator.x != 0); }
    if (numerator.x == 0) { return 0u; }
    let whole = min(b, 0xffffffu);
    let up = countLeadingZeros(whole) - 8u;
    let denominator = whole << up;
    // 27 bits of the quotient, the first of which may be 0, and whether there is a remainder.
    var rest = u32(numerator.x);
    var bits = 0u;
    for (var round = 0u; round < 27u; round++) {
        bits = bits << 1u;
        if (rest >= denominator) {
            rest -= denominator;
            bits |= 1u;
        }
        rest = rest << 1u;
    }
    bits = (bits << 1u) | select(0u, 1u, rest != 0u);
    // Value bits 2^exponent, 27 or 28 bits.
    var exponent = numerator.y + i32(up) - 27;
    let top = i32(firstLeadingBit(bits));
    // Down to 24 bits, or to the smallest subnormal step.
    let down = u32(max(top - 23, -149 - exponent));
    if (down > 30u) { return 0u; }
    let left = bits & ((1u << down) - 1u);
    let half = 1u << (down - 1u);
    var kept = bits >> down;
    if (left > half || (left == half && (kept & 1u) == 1u)) { kept += 1u; }
    exponent += i32(down);
    // A carry into the next power of two carries into the exponent.
    return (u32(exponent + 149) << 23u) + kept;
}

fn classic(i: u32) -> vec4<u32> {
    let stride = job.capacity;
    let steps = records[2u * stride + i];
    let sum = records[3u * stride + i];
    let log_scales = bitcast<vec3<f32>>(splats[2u * stride + i].xyz);
    let grows = is_above(sum, bitcast<u32>(rule.gradient_threshold * f32(steps)));
    let splits = grows && is_any_above(log_scales, rule.clone_log_scale);
    var after = log_scales;
    if (splits) { after = log_scales - vec3<f32>(rule.log_shrink); }
    let prunes = is_above(bitcast<u32>(rule.prune_logit), splats[i].w)
        || is_any_above(after, rule.prune_log_scale)
        || is_above(records[4u * stride + i], bitcast<u32>(rule.prune_radius));
    if (prunes) { return vec4<u32>(PRUNE, 0u, 0xffffffffu, 0u); }
    if (!grows) { return vec4<u32>(KEEP, 0u, 0xffffffffu, 0u); }
    // The largest mean statistic first.
    return vec4<u32>(select(CLONE, SPLIT, splits), 0u, 0x7fffffffu - ratio_bits(sum, steps), 0u);
}

fn mcmc(i: u32) -> vec4<u32> {
    let logit = splats[i].w;
    let key = rank_of_longest(splats[2u * job.capacity + i].xyz);
    if (!is_above(logit, bitcast<u32>(rule.dead_logit))) { return vec4<u32>(MOVE, 0u, key, 0u); }
    return vec4<u32>(KEEP, weight_of(bitcast<f32>(logit)), key, 0u);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (thread == 0u) {
        atomicStore(&cloned, 0u);
        atomicStore(&split, 0u);
        atomicStore(&pruned, 0u);
        atomicStore(&moved, 0u);
    }
    workgroupBarrier();
    if (i < job.splats) {
        var mark = vec4<u32>(PRUNE, 0u, 0xffffffffu, 0u);
        if (is_whole(i)) {
            if (MCMC) { mark = mcmc(i); } else { mark = classic(i); }
        }
        marks[i] = mark;
        if (mark.x == CLONE) { atomicAdd(&cloned, 1u); }
        if (mark.x == SPLIT) { atomicAdd(&split, 1u); }
        if (mark.x == PRUNE) { atomicAdd(&pruned, 1u); }
        if (mark.x == MOVE) { atomicAdd(&moved, 1u); }
    }
    workgroupBarrier();
    if (thread == 0u) {
        atomicAdd(&status[RULE_CLONED], atomicLoad(&cloned));
        atomicAdd(&status[RULE_SPLIT], atomicLoad(&split));
        atomicAdd(&status[RULE_PRUNED], atomicLoad(&pruned));
        atomicAdd(&status[RULE_RELOCATED], atomicLoad(&moved));
    }
}
