// Adds the slots of each visible splat, in the order of its tiles, to the sum of the bands above. The last value
// indicates whether a gradient is not zero.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> boxes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read> offsets: array<u32>;
@group(0) @binding(4) var<storage, read> slots: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> gradients: array<vec4<f32>>;

/// Whether a number is neither 0 nor -0.
fn is_something(v: vec4<f32>) -> bool {
    return any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) != vec4<u32>(0u));
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let rank = group_index(group) * 256u + thread;
    if (rank >= job.visible) { return; }
    let splat = order[rank];
    let box = boxes[splat];
    let first = offsets[rank];
    let end = first + (box.y & 0xffffu) * rows_in_band(box).y;
    var sum_0 = vec4<f32>(0.0);
    var sum_1 = vec4<f32>(0.0);
    var sum_2 = vec4<f32>(0.0);
    if (job.band_top > 0u) {
        sum_0 = gradients[splat];
        sum_1 = gradients[job.drawn_capacity + splat];
        sum_2 = vec4<f32>(gradients[2u * job.drawn_capacity + splat].xyz, 0.0);
    }
    for (var entry = first; entry < end; entry++) {
        sum_0 += slots[3u * entry];
        sum_1 += slots[3u * entry + 1u];
        sum_2 += slots[3u * entry + 2u];
    }
    let touched = is_something(sum_0) || is_something(sum_1) || is_something(vec4<f32>(sum_2.x));
    sum_2.w = select(0.0, 1.0, touched);
    gradients[splat] = sum_0;
    gradients[job.drawn_capacity + splat] = sum_1;
    gradients[2u * job.drawn_capacity + splat] = sum_2;
}
