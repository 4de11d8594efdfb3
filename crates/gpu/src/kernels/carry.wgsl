// Moves all planes to the positions of the rows, through a buffer that is free meanwhile.

// Whether to write zeros for rows that are new or drop their moments.
override MOMENTS: bool = false;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> order: array<u32>;
@group(0) @binding(2) var<storage, read> rows: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> result: array<vec4<u32>>;

/// Planes of splats or moments.
@compute @workgroup_size(256)
fn carry(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let place = group_index(group) * 256u + thread;
    if (place >= job.visible) { return; }
    let row = rows[order[place]].x;
    let from_splat = row & ROW_SOURCE;
    let zero = MOMENTS && (row & (ROW_NEW | ROW_FORGETS)) != 0u;
    for (var plane = 0u; plane < 3u; plane++) {
        var value = vec4<u32>(0u);
        if (!zero) { value = source[plane * job.capacity + from_splat]; }
        result[plane * job.capacity + place] = value;
    }
}

/// Planes of the row geometry.
@compute @workgroup_size(256)
fn settle(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let place = group_index(group) * 256u + thread;
    if (place >= job.visible) { return; }
    let row = order[place];
    for (var plane = 0u; plane < 3u; plane++) {
        result[plane * job.capacity + place] = source[plane * job.capacity + row];
    }
}

/// Copies back from the other buffer.
@compute @workgroup_size(256)
fn put(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let place = group_index(group) * 256u + thread;
    if (place >= job.visible) { return; }
    for (var plane = 0u; plane < 3u; plane++) {
        let at = plane * job.capacity + place;
        result[at] = source[at];
    }
}
