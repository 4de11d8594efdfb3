// Morton codes of the rows, those of `gausset_density::morton`: 10 bits an axis, x lowest.

override REORDER: bool = false;

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(1) var<storage, read> geometry: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> census: array<u32>;
@group(0) @binding(3) var<storage, read_write> keys: array<u32>;
@group(0) @binding(4) var<storage, read_write> order: array<u32>;

fn spread(cell: u32) -> u32 {
    var v = cell & 0x3ffu;
    v = (v | (v << 16u)) & 0x030000ffu;
    v = (v | (v << 8u)) & 0x0300f00fu;
    v = (v | (v << 4u)) & 0x030c30c3u;
    return (v | (v << 2u)) & 0x09249249u;
}

fn code(mean: vec3<u32>) -> u32 {
    if (!are_finite_bits(vec4<u32>(mean, 0u))) { return 0xffffffffu; }
    var bits = 0u;
    for (var axis = 0u; axis < 3u; axis++) {
        let at = CENSUS_GRID + 3u * axis;
        let cells = Double(vec2<u32>(census[at], census[at + 1u]), bitcast<i32>(census[at + 2u]));
        let from_low = difference(mean[axis], bits_of_rank(census[CENSUS_BOX + axis]));
        var cell = 0u;
        if ((cells.mantissa.y | cells.mantissa.x) != 0u && (from_low.mantissa.x | from_low.mantissa.y) != 0u) {
            cell = min(whole_of(product(from_low, cells), false), 1023u);
        }
        bits |= spread(cell) << axis;
    }
    return bits;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let row = group_index(group) * 256u + thread;
    if (row >= job.visible) { return; }
    if (REORDER) { keys[row] = code(geometry[row].xyz); }
    order[row] = row;
}
