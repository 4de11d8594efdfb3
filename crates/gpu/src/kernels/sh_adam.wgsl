// Stage `adam` of a block of four SH coefficients: the gradient of coefficient k is Y_k(d) g, with g the gradient of
// the colour. Coefficients above the degree in use are not updated, nor are their moments.

override BLOCK: u32 = 0u;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read_write> sh: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> moments1: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> moments2: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> gradients: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> directions: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> records: array<u32>;
@group(0) @binding(7) var<storage, read> sums: array<u32>;

fn update(at: u32, g: vec4<f32>, rate: vec4<f32>, used: vec4<bool>, corrections: vec2<f32>) {
    let p = sh[at];
    let m = moments1[at];
    let v = moments2[at];
    let a = adam(p, m, v, g, rate, corrections);
    sh[at] = select(p, a.parameter, used);
    moments1[at] = select(m, a.moment1, used);
    moments2[at] = select(v, a.moment2, used);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let direction = directions[i];
    let moves = direction.w;
    if (moves == MOVES_NOT) { return; }
    let stride = job.capacity;
    var corrections = vec2<f32>(job.dense_first, job.dense_second);
    if ((job.flags & FLAG_SPARSE) != 0u) {
        let clock = records[stride + i];
        corrections = vec2<f32>(1.0);
        if (clock < BIAS_CLOCKS) { corrections = vec2<f32>(bitcast<f32>(sums[2u * clock]), bitcast<f32>(sums[2u * clock + 1u])); }
    }
    var y = vec4<f32>(0.0);
    var g = vec3<f32>(0.0);
    if (moves == MOVES) {
        g = vec3<f32>(gradients[stride + i].zw, gradients[2u * stride + i].x);
        y = basis_of(BLOCK, direction.xyz);
    }
    let used = in_use(BLOCK, job.sh_degree);
    let rest = vec4<f32>(job.rate_sh_rest);
    var first = rest;
    if (BLOCK == 0u) { first = vec4<f32>(vec3<f32>(job.rate_sh_dc), job.rate_sh_rest); }
    update(i, vec4<f32>(y.x * g, y.y * g.x), first, vec4<bool>(used.x, used.x, used.x, used.y), corrections);
    if (!used.y) { return; }
    update(stride + i, vec4<f32>(y.y * g.yz, y.z * g.xy), rest, vec4<bool>(used.y, used.y, used.z, used.z), corrections);
    if (!used.z) { return; }
    update(2u * stride + i, vec4<f32>(y.z * g.z, y.w * g), rest, vec4<bool>(used.z, used.w, used.w, used.w), corrections);
}
