// Moves ids, clocks and statistics to the positions of the rows, through another buffer.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> source: array<u32>;
@group(0) @binding(5) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(256)
fn carry(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let place = group_index(group) * 256u + thread;
    if (place >= job.visible) { return; }
    let stride = job.capacity;
    let row = rows[order[place]];
    let from_splat = row.x & ROW_SOURCE;
    let forgets = (row.x & (ROW_NEW | ROW_FORGETS)) != 0u;
    let clears = (row.x & ROW_NEW) != 0u || (rule.flags & RULE_CLEARS) != 0u;
    result[place] = row.y;
    result[stride + place] = select(source[stride + from_splat], 0u, forgets);
    for (var plane = 2u; plane < 5u; plane++) {
        result[plane * stride + place] = select(source[plane * stride + from_splat], 0u, clears);
    }
}

@compute @workgroup_size(256)
fn put(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let place = group_index(group) * 256u + thread;
    if (place >= job.visible) { return; }
    for (var plane = 0u; plane < 5u; plane++) {
        let at = plane * job.capacity + place;
        result[at] = source[at];
    }
}
