// Copies the slot sums of a page's splats from the buffers of `compact_page`.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> boxes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> drawn: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> gradients: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let box = boxes[i];
    if (box.y == 0u) { return; }
    for (var plane = 0u; plane < 3u; plane++) {
        gradients[plane * job.capacity + i] = drawn[plane * job.drawn_capacity + box.w];
    }
}
