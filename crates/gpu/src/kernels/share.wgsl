// The parameters of a splat that is copied several times (Kheradmand et al. 2024, eq. 9;
// `gausset_density::share_among_copies`), and of one that is halved along its longest axis (`long_axis`). `relocate`
// creates rows from splats, `grow` rows from rows.
//
//     o' = 1 - (1 - o)^(1/n),  s' = s o / D(n, o'),  D(n, o) = π^(-1/2) ∫ 1 - (1 - o exp(-x²))^n dx

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> records: array<u32>;
@group(0) @binding(4) var<storage, read> marks: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> draws: array<u32>;
@group(0) @binding(6) var<storage, read> places: array<u32>;
@group(0) @binding(7) var<storage, read_write> geometry: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> rows: array<vec2<u32>>;

const MOST_COPIES = 51u;
// Step of the trapezoid rule and its nodes: beyond x = 5 the integrand is below 1e-9.
const STEP = 0.125;
const NODES = 40u;
const TWO_OVER_SQRT_PI = 1.1283791671;
// δ / s of a half: √3/2.
const OFFSET = 0.8660254038;

struct Row {
    p0: vec4<u32>,
    p1: vec4<u32>,
    p2: vec4<u32>,
}

/// ln(1 + x) for 0 <= x <= 1, as 2 artanh(x / (2 + x)): no digits are lost where x is small.
fn log_of_one_more(x: f32) -> f32 {
    let z = x / (2.0 + x);
    let z2 = z * z;
    let series = fma(fma(fma(fma(fma(fma(1.0 / 13.0, z2, 1.0 / 11.0), z2, 1.0 / 9.0), z2, 1.0 / 7.0), z2, 0.2), z2, 1.0 / 3.0), z2, 1.0);
    return 2.0 * z * series;
}

/// 1 - exp(x) for x <= 0.
fn one_less_exp(x: f32) -> f32 {
    if (x < -0.5) { return 1.0 - exp(x); }
    var term = 1.0;
    for (var k = 10.0; k > 1.5; k -= 1.0) { term = fma(term, x / k, 1.0); }
    return -x * term;
}

fn integral_of_copies(n: u32, o: f32) -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < NODES; k++) {
        let x = f32(k) * STEP;
        let a = o * exp(-x * x);
        // 1 - (1 - a)^n = a (1 + (1 - a) + … + (1 - a)^(n-1)): nothing cancels.
        var series = 0.0;
        for (var i = 0u; i < n; i++) { series = fma(series, 1.0 - a, 1.0); }
        sum = fma(select(1.0, 0.5, k == 0u) * a, series, sum);
    }
    return TWO_OVER_SQRT_PI * STEP * sum;
}

fn shared_among(row: Row, copies: u32) -> Row {
    let logit = bitcast<f32>(row.p0.w);
    let small = log_of_one_more(exp(-abs(logit)));
    // ln(1 - o) = -softplus(logit) keeps its digits where o rounds to 1.
    let part = -(max(logit, 0.0) + small) / f32(copies);
    let opacity = clamp(one_less_exp(part), rule.min_opacity, 1.0 - 1.1920929e-7);
    let transparency = clamp(exp(part), 1.1920929e-7, 1.0 - rule.min_opacity);
    // ln o = -softplus(-logit).
    let log_opacity = -(max(-logit, 0.0) + small);
    let change = log_opacity - log(integral_of_copies(copies, opacity));
    let scales = bitcast<vec3<f32>>(row.p2.xyz) + vec3<f32>(change);
    let p0 = vec4<u32>(row.p0.xyz, bitcast<u32>(log(opacity) - log(transparency)));
    return Row(p0, row.p1, vec4<u32>(bitcast<vec3<u32>>(scales), row.p2.w));
}

/// One half of a splat; both keep its mean if one of them would not be finite.
fn half_of(row: Row, side: f32) -> Row {
    let log_scales = bitcast<vec3<f32>>(row.p2.xyz);
    let shape = shape_of(bitcast<vec4<f32>>(row.p1), log_scales);
    let longest = rank_of_longest(row.p2.xyz);
    // The first of equals.
    var along = vec3<f32>(0.0, 0.0, 1.0);
    if (rank_of(row.p2.y) == longest) { along = vec3<f32>(0.0, 1.0, 0.0); }
    if (rank_of(row.p2.x) == longest) { along = vec3<f32>(1.0, 0.0, 0.0); }
    let axis = vec3<f32>(dot(shape.r0, along), dot(shape.r1, along), dot(shape.r2, along));
    let offset = OFFSET * dot(shape.scale, along) * axis;
    let mean = bitcast<vec3<f32>>(row.p0.xyz);
    let front = bitcast<vec3<u32>>(mean + offset);
    let back = bitcast<vec3<u32>>(mean - offset);
    if (!are_finite_bits(vec4<u32>(front, 0u)) || !are_finite_bits(vec4<u32>(back, 0u))) { return row; }
    let shorter = bitcast<vec3<u32>>(log_scales - LN_2 * along);
    return Row(vec4<u32>(select(back, front, side > 0.0), row.p0.w), row.p1, vec4<u32>(shorter, row.p2.w));
}

/// A row that was drawn, or its copy.
fn changed(i: u32, side: f32) -> Row {
    let stride = job.capacity;
    let row = Row(source[i], source[stride + i], source[2u * stride + i]);
    let drawn = draws[i];
    if (drawn == 0u) { return row; }
    if (drawn == 1u && marks[i].z >= rule.size_limit) { return half_of(row, side); }
    return shared_among(row, min(drawn + 1u, MOST_COPIES));
}

fn write(to: u32, row: Row) {
    let stride = job.capacity;
    geometry[to] = row.p0;
    geometry[stride + to] = row.p1;
    geometry[2u * stride + to] = row.p2;
}

@compute @workgroup_size(256)
fn relocate(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let mark = marks[i];
    if (mark.x == PRUNE) { return; }
    let to = places[i];
    let id = records[i];
    if (mark.x == MOVE && (rule.total_low | rule.total_high) != 0u) {
        write(to, changed(mark.w, -1.0));
        rows[to] = vec2<u32>(mark.w | ROW_NEW, id);
        return;
    }
    write(to, changed(i, 1.0));
    rows[to] = vec2<u32>(i | select(0u, ROW_FORGETS, draws[i] != 0u), id);
}

@compute @workgroup_size(256)
fn grow(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let to = group_index(group) * 256u + thread;
    if (to >= job.visible) { return; }
    if (to < rule.kept) {
        write(to, changed(to, 1.0));
        return;
    }
    let from_row = places[to - rule.kept];
    write(to, changed(from_row, -1.0));
    rows[to] = vec2<u32>((rows[from_row].x & ROW_SOURCE) | ROW_NEW, rule.first_id + to - rule.kept);
}
