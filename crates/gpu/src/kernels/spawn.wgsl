// Writes the rows after clone and split: kept splats in their order, then new ones in the order of their parents. A
// clone is an exact copy; the halves of a split are drawn from it, `μ' = μ + R diag(s) ξ`, and shrunk.

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> splats: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> records: array<u32>;
@group(0) @binding(4) var<storage, read> marks: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> kept: array<u32>;
@group(0) @binding(6) var<storage, read> born: array<u32>;
@group(0) @binding(7) var<storage, read_write> geometry: array<vec4<u32>>;
// Source splat and flags of a row; its id.
@group(0) @binding(8) var<storage, read_write> rows: array<vec2<u32>>;

fn write(row: u32, p0: vec4<u32>, p1: vec4<u32>, p2: vec4<u32>, source: u32, id: u32) {
    let stride = job.capacity;
    geometry[row] = p0;
    geometry[stride + row] = p1;
    geometry[2u * stride + row] = p2;
    rows[row] = vec2<u32>(source, id);
}

fn half_of(p0: vec4<u32>, shape: Shape, stream: u32, id: u32) -> vec4<u32> {
    let seed = vec2<u32>(rule.seed_low, rule.seed_high);
    let words = philox(seed, stream, vec2<u32>(rule.step_low, rule.step_high), id);
    let local = shape.scale * vec3<f32>(normals(words.x, words.y), normals(words.z, words.w).x);
    let offset = vec3<f32>(dot(shape.r0, local), dot(shape.r1, local), dot(shape.r2, local));
    let drawn = bitcast<vec3<u32>>(bitcast<vec3<f32>>(p0.xyz) + offset);
    if (!are_finite_bits(vec4<u32>(drawn, 0u))) { return p0; }
    return vec4<u32>(drawn, p0.w);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let decision = marks[i].x;
    if (decision == PRUNE) { return; }
    let stride = job.capacity;
    let p0 = splats[i];
    let p1 = splats[stride + i];
    let p2 = splats[2u * stride + i];
    let id = records[i];
    if (decision != SPLIT) { write(kept[i], p0, p1, p2, i, id); }
    if (decision == KEEP) { return; }
    let child = born[i];
    let row = rule.kept + child;
    let new_id = rule.first_id + child;
    let source = i | ROW_NEW;
    if (decision == CLONE) {
        write(row, p0, p1, p2, source, new_id);
        return;
    }
    let log_scales = bitcast<vec3<f32>>(p2.xyz);
    let shape = shape_of(bitcast<vec4<f32>>(p1), log_scales);
    let shrunk = vec4<u32>(bitcast<vec3<u32>>(log_scales - vec3<f32>(rule.log_shrink)), p2.w);
    write(row, half_of(p0, shape, STREAM_SPLIT, id), p1, shrunk, source, new_id);
    write(row + 1u, half_of(p0, shape, STREAM_SPLIT | 0x8000u, id), p1, shrunk, source, new_id + 1u);
}
