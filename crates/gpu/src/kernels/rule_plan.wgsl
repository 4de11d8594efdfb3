// The planning kernels of a density rule: one thread each. Only they write the counts of a rule, and the arguments of
// its indirect dispatches. A rule whose rows do not fit halts before anything of the state is written.

@group(0) @binding(0) var<storage, read_write> job: Job;
@group(0) @binding(1) var<storage, read_write> rule: Rule;
@group(0) @binding(2) var<storage, read_write> arguments: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> status: array<u32>;
@group(0) @binding(4) var<storage, read_write> census: array<u32>;
@group(0) @binding(5) var<storage, read_write> partials: array<u32>;
@group(0) @binding(6) var<storage, read_write> keys: array<u32>;

/// The upper half of the bits of 1.0.
const ONE_HIGH = 0x3ff00000u;

fn has_halted() -> bool {
    return status[STATUS_HALT] != 0u;
}

/// Sets the number of items that are sorted, scanned and processed from here on.
fn walk_over(count: u32) {
    job.visible = count;
    // Four more: a scan reads whole vectors.
    arguments[ARGUMENT_VISIBLE] = grid(count + 4u, 256u);
    arguments[ARGUMENT_VISIBLE_BLOCKS] = grid(count, SCAN_BLOCK);
    arguments[ARGUMENT_VISIBLE_COUNTS] = grid(256u * ((count + SCAN_BLOCK - 1u) / SCAN_BLOCK), SCAN_BLOCK);
}

/// Whether this number of rows fits; halts if it does not.
fn fits(count: u32) -> bool {
    status[RULE_SPLATS] = count;
    if (count <= job.capacity) { return true; }
    status[STATUS_HALT] = HALT_SPLATS;
    for (var i = 0u; i < ARGUMENTS; i++) { arguments[i] = vec4<u32>(0u); }
    return false;
}

/// Which of the splats that would grow may do so. If all may, nothing is sorted.
@compute @workgroup_size(64)
fn plan_limit(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    let left = job.splats - status[RULE_PRUNED];
    rule.room = rule.max_splats - min(left, rule.max_splats);
    if (status[RULE_CLONED] + status[RULE_SPLIT] > rule.room) { walk_over(job.splats); }
}

/// Counts the rows after clone, split and prune.
@compute @workgroup_size(64)
fn plan_rows(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    rule.kept = job.splats - status[RULE_PRUNED] - status[RULE_SPLIT];
    rule.added = status[RULE_CLONED] + 2u * status[RULE_SPLIT];
    rule.first_id = census[CENSUS_NEXT_ID];
    if (fits(rule.kept + rule.added)) { walk_over(job.splats); }
}

/// Counts the rows after relocation and growth, which follow from the number of living splats.
@compute @workgroup_size(64)
fn plan_relocation(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    let left = job.splats - status[RULE_PRUNED];
    let grown = product(double_of(left), double_of_bits(rule.growth_low, rule.growth_high));
    rule.kept = left;
    // A factor above 1 adds a splat at least: otherwise a set of a few would never grow.
    let grows = rule.growth_high > ONE_HIGH || (rule.growth_high == ONE_HIGH && rule.growth_low > 0u);
    let least = left + u32(grows && left > 0u);
    rule.added = max(min(max(whole_of(grown, true), least), rule.max_splats), left) - left;
    rule.first_id = census[CENSUS_NEXT_ID];
    if (fits(rule.kept + rule.added)) { walk_over(job.splats); }
}

/// Reads the sum of all weights, and the size above which a row that is drawn once is halved.
fn look_at_rows() {
    let total = 2u * ((job.visible + SCAN_BLOCK - 1u) / SCAN_BLOCK);
    rule.total_low = partials[total];
    rule.total_high = partials[total + 1u];
    let whole = whole_of(product(double_of(rule.kept), double_of_bits(rule.whole_low, rule.whole_high)), false);
    rule.size_limit = 0xffffffffu;
    if (whole < rule.kept) { rule.size_limit = keys[whole]; }
}

@compute @workgroup_size(64)
fn plan_draws(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    look_at_rows();
    // There is no splat to relocate to.
    if ((rule.total_low | rule.total_high) == 0u) { status[RULE_RELOCATED] = 0u; }
}

/// Starts growth, from the rows that relocation has left.
@compute @workgroup_size(64)
fn plan_growth(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    walk_over(rule.kept);
}

/// If all weights are 0, no splats are added.
@compute @workgroup_size(64)
fn plan_added(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    look_at_rows();
    if ((rule.total_low | rule.total_high) == 0u) { rule.added = 0u; }
    status[RULE_ADDED] = rule.added;
    arguments[ARGUMENT_ENTRIES] = grid(rule.added, 256u);
}

/// All rows exist: starts moving them to their positions, with an empty bounding box of their means.
@compute @workgroup_size(64)
fn plan_order(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    walk_over(rule.kept + rule.added);
    for (var axis = 0u; axis < 3u; axis++) {
        census[CENSUS_BOX + axis] = 0xffffffffu;
        census[CENSUS_BOX + 3u + axis] = 0u;
    }
}

/// Cells of the Morton grid per unit, 1024 over the extent of the box; 0 along an axis without extent.
@compute @workgroup_size(64)
fn plan_grid(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    for (var axis = 0u; axis < 3u; axis++) {
        let low = census[CENSUS_BOX + axis];
        let high = census[CENSUS_BOX + 3u + axis];
        var cells = Double(vec2<u32>(0u), 0);
        if (high > low) { cells = quotient(double_of(1024u), difference(bits_of_rank(high), bits_of_rank(low))); }
        let at = CENSUS_GRID + 3u * axis;
        census[at] = cells.mantissa.x;
        census[at + 1u] = cells.mantissa.y;
        census[at + 2u] = bitcast<u32>(cells.exponent);
    }
}

/// Ends a rule: from here on the number of splats is that of the rows.
@compute @workgroup_size(64)
fn finish_rule(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || has_halted()) { return; }
    if ((rule.flags & RULE_STAYS) == 0u) {
        census[CENSUS_SPLATS] = rule.kept + rule.added;
        census[CENSUS_NEXT_ID] = rule.first_id + rule.added;
    }
    status[RULE_SPLATS] = census[CENSUS_SPLATS];
    status[RULE_NEXT_ID] = census[CENSUS_NEXT_ID];
    status[STATUS_DONE] = 1u;
}
