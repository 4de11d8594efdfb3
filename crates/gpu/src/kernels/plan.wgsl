// The planning kernels: one workgroup each, between the stages. Only they write the job's counts and the arguments of
// indirect dispatches. A unit that halts has no workgroups in later dispatches, and so has no effect.

@group(0) @binding(0) var<storage, read_write> job: Job;
@group(0) @binding(1) var<storage, read_write> arguments: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> status: array<u32>;
@group(0) @binding(3) var<storage, read_write> partials: array<u32>;
@group(0) @binding(4) var<storage, read_write> sums: array<u32>;
@group(0) @binding(5) var<storage, read_write> census: array<u32>;

// For `next_window`: the index of the arguments of the split dispatch, and the number of parts.
override DISPATCH: u32 = 0u;
override PARTS: u32 = 1u;

// For `turn_page`: 0: the first page of the splats, 1: the next one, 2: all of them.
override TURN: u32 = 0u;

var<workgroup> shared_words: array<u32, 256>;
var<workgroup> shared_values: array<vec2<f32>, 256>;

fn halt(reason: u32) {
    status[STATUS_HALT] = reason;
    for (var i = 0u; i < ARGUMENTS; i++) { arguments[i] = vec4<u32>(0u); }
}

/// Saturating sum: a value that is too large stays too large.
fn add_capped(a: u32, b: u32) -> u32 {
    let sum = a + b;
    return select(sum, 0xffffffffu, sum < a);
}

/// Starts the band at a tile row.
fn start_band(top: u32) {
    job.band_top = top;
    job.band_bottom = min(top + job.band_rows, job.tiles / max(job.tiles_x, 1u));
    arguments[ARGUMENT_BAND] = grid((job.band_bottom - top) * job.tiles_x, 1u);
}

/// Starts a unit.
@compute @workgroup_size(64)
fn begin(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u) { return; }
    for (var i = 0u; i < ARGUMENTS; i++) { arguments[i] = vec4<u32>(0u); }
    // A unit after a halted one does nothing, and its status is that of the halted one.
    if (status[STATUS_HALT] != 0u && (job.flags & FLAG_LIFTS) == 0u) { return; }
    // This unit again, after it halted in a band: the rows before it are done.
    let is_again = status[STATUS_HALT] == HALT_CAPACITY && status[STATUS_NUMBER] == job.unit;
    job.done_rows = select(0u, status[STATUS_DONE_ROWS], is_again);
    for (var i = 0u; i < STATUS_WORDS; i++) { status[i] = 0u; }
    status[STATUS_NUMBER] = job.unit;
    // The host need not know the number of splats: rules may be in flight.
    job.splats = min(census[CENSUS_SPLATS], job.capacity);
    let most = f32(max(census[CENSUS_SPLATS], 1u));
    job.opacity_pull = job.opacity_pull / most;
    job.scale_pull = job.scale_pull / (3.0 * most);
    arguments[ARGUMENT_SPLATS] = grid(job.splats, 256u);
    arguments[ARGUMENT_TILES] = grid(job.tiles, 1u);
    arguments[ARGUMENT_QUERIES] = grid(job.queries, 256u);
    start_band(0u);
    arguments[ARGUMENT_ONE] = vec4<u32>(1u, 1u, 1u, 0u);
    job.visible = 0u;
    job.entries = 0u;
}

/// Selects a page of the splats, if they do not fit into one binding; after the last page come the sums over all groups
/// of splats.
@compute @workgroup_size(64)
fn turn_page(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u) { return; }
    let all = census[CENSUS_SPLATS];
    job.first_splat = select(0u, job.first_splat + job.capacity, TURN == 1u);
    let rest = all - min(all, job.first_splat);
    job.splats = select(min(rest, job.capacity), rest, TURN == 2u);
    if (status[STATUS_HALT] == 0u) { arguments[ARGUMENT_SPLATS] = grid(job.splats, 256u); }
}

/// Positions of the visible splats of each group of 256: an exclusive scan of their counts, after those of the pages
/// before.
@compute @workgroup_size(256)
fn plan_visible(@builtin(local_invocation_index) thread: u32) {
    let blocks = (job.splats + 255u) / 256u;
    var carry = job.visible;
    for (var first = 0u; first < blocks; first += 256u) {
        let at = first + thread;
        var count = 0u;
        if (at < blocks) { count = partials[at]; }
        shared_words[thread] = count;
        workgroupBarrier();
        for (var reach = 1u; reach < 256u; reach = reach << 1u) {
            var value = shared_words[thread];
            if (thread >= reach) { value += shared_words[thread - reach]; }
            workgroupBarrier();
            shared_words[thread] = value;
            workgroupBarrier();
        }
        if (at < blocks) { partials[at] = carry + shared_words[thread] - count; }
        carry += shared_words[255];
        workgroupBarrier();
    }
    if (thread == 0u && status[STATUS_HALT] == 0u) {
        status[STATUS_VISIBLE] = carry;
        if (carry > job.drawn_capacity) {
            halt(HALT_VISIBLE);
            return;
        }
        job.visible = carry;
        // Four more: a scan reads whole vectors.
        arguments[ARGUMENT_VISIBLE] = grid(carry + 4u, 256u);
        arguments[ARGUMENT_VISIBLE_BLOCKS] = grid(carry, SCAN_BLOCK);
        arguments[ARGUMENT_VISIBLE_COUNTS] = grid(256u * ((carry + SCAN_BLOCK - 1u) / SCAN_BLOCK), SCAN_BLOCK);
    }
}

/// Moves to the next band, or back to the first one: from there on the backward pass runs.
@compute @workgroup_size(64)
fn next_band(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || status[STATUS_HALT] != 0u) { return; }
    let is_over = job.band_bottom * job.tiles_x >= job.tiles;
    if (is_over) { job.is_back = 1u; }
    start_band(select(job.band_bottom, 0u, is_over));
}

/// Moves to the next chunk of long lists, or back to the first one.
@compute @workgroup_size(64)
fn next_chunk(@builtin(local_invocation_index) thread: u32) {
    if (thread == 0u) { job.chunk = select(job.chunk + 1u, 0u, job.chunk + 1u >= job.chunks); }
}

/// Sets the workgroups of the next part of a dispatch; after the last one, the arguments are whole again.
@compute @workgroup_size(64)
fn next_window(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u) { return; }
    let is_over = job.window == PARTS;
    let size = arguments[DISPATCH].x * arguments[DISPATCH].y;
    var part = (size + PARTS - 1u) / PARTS;
    // In whole rows of the grid, so that no workgroup is in two parts: some kernels accumulate.
    if (part > GRID_WIDTH) { part = (part + GRID_WIDTH - 1u) / GRID_WIDTH * GRID_WIDTH; }
    job.first_group = select(min(job.window * part, size), 0u, is_over);
    arguments[ARGUMENT_WINDOW] = grid(min(part, size - job.first_group), 1u);
    job.window = select(job.window + 1u, 0u, is_over);
}

/// Checks whether all entries of the band fit, before any of them is written.
@compute @workgroup_size(64)
fn plan_entries(@builtin(local_invocation_index) thread: u32) {
    if (thread != 0u || status[STATUS_HALT] != 0u) { return; }
    let entries = partials[(job.visible + SCAN_BLOCK - 1u) / SCAN_BLOCK];
    if (entries > job.entry_capacity) {
        status[STATUS_ENTRIES] = entries;
        status[STATUS_DONE_ROWS] = max(job.done_rows, job.band_top);
        halt(HALT_CAPACITY);
        return;
    }
    // The lists are built a second time for the backward pass.
    if (job.is_back == 0u) { status[STATUS_ENTRIES] = add_capped(status[STATUS_ENTRIES], entries); }
    job.entries = entries;
    arguments[ARGUMENT_ENTRIES] = grid(entries, 256u);
    arguments[ARGUMENT_ENTRY_BLOCKS] = grid(entries, SCAN_BLOCK);
    arguments[ARGUMENT_ENTRY_COUNTS] = grid(256u * ((entries + SCAN_BLOCK - 1u) / SCAN_BLOCK), SCAN_BLOCK);
}

/// Reduces the loss over tiles by a fixed tree. A loss that is not finite halts the unit.
@compute @workgroup_size(256)
fn plan_loss(@builtin(local_invocation_index) thread: u32) {
    // If the unit was halted before, there are no sums.
    var sum = vec2<f32>(0.0);
    for (var tile = thread; tile < job.tiles; tile += 256u) {
        sum += vec2<f32>(bitcast<f32>(partials[2u * tile]), bitcast<f32>(partials[2u * tile + 1u]));
    }
    shared_values[thread] = sum;
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { shared_values[thread] += shared_values[thread + reach]; }
        workgroupBarrier();
    }
    if (thread == 0u && status[STATUS_HALT] == 0u) {
        let total = shared_values[0];
        status[STATUS_ABSOLUTE] = bitcast<u32>(total.x);
        status[STATUS_SSIM] = bitcast<u32>(total.y);
        if (!is_finite(total.x) || !is_finite(total.y)) { halt(HALT_LOSS); }
    }
}

/// Ends a step: sums the skipped updates over the groups of `project_vjp`.
@compute @workgroup_size(256)
fn finish(@builtin(local_invocation_index) thread: u32) {
    let groups = (job.splats + 255u) / 256u;
    var skipped = 0u;
    for (var group = thread; group < groups; group += 256u) {
        skipped += sums[SUMS_GROUPS + SUMS_STRIDE * group + SUMS_SKIPPED];
    }
    shared_words[thread] = skipped;
    workgroupBarrier();
    for (var reach = 128u; reach > 0u; reach = reach >> 1u) {
        if (thread < reach) { shared_words[thread] += shared_words[thread + reach]; }
        workgroupBarrier();
    }
    if (thread == 0u && status[STATUS_HALT] == 0u) {
        status[STATUS_SKIPPED] = shared_words[0];
        status[STATUS_DONE] = 1u;
    }
}
