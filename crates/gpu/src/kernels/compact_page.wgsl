// Like `compact`, for one page of the splats: the records of visible splats are copied to separate buffers, in the
// order of splats, so that reading them does not need the page. There a splat is identified by its position, which is
// stored in its box.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read_write> boxes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> partials: array<u32>;
@group(0) @binding(3) var<storage, read> screen: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;
@group(0) @binding(5) var<storage, read_write> order: array<u32>;
@group(0) @binding(6) var<storage, read_write> drawn: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> drawn_boxes: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let block = group_index(group);
    let i = block * 256u + thread;
    var box = vec4<u32>(0u);
    if (i < job.splats) { box = boxes[i]; }
    let visible = select(0u, 1u, box.y != 0u);
    let rank = rank_of(thread, visible);
    if (visible == 1u) {
        let place = partials[block] + rank;
        keys[place] = box.z;
        order[place] = place;
        for (var plane = 0u; plane < 3u; plane++) {
            drawn[plane * job.drawn_capacity + place] = screen[plane * job.capacity + i];
        }
        drawn_boxes[place] = box;
        boxes[i].w = place;
    }
}
