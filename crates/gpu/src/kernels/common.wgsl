// Shared functions: the two-dimensional grid, tests by bits, sums over a workgroup.

/// Index of a workgroup in a grid of constant width: at most 65,535 workgroups fit into one dimension. A part of a
/// split dispatch starts after those of the parts before it.
fn group_index(group: vec3<u32>) -> u32 {
    return job.first_group + group.y * GRID_WIDTH + group.x;
}

/// Arguments of an indirect dispatch with one workgroup per `per_group` of `items` items.
fn grid(items: u32, per_group: u32) -> vec4<u32> {
    let groups = (items + per_group - 1u) / per_group;
    return vec4<u32>(min(groups, GRID_WIDTH), (groups + GRID_WIDTH - 1u) / GRID_WIDTH, select(0u, 1u, groups > 0u), 0u);
}

/// Whether a number is neither infinite nor NaN, by its bits: compilers may assume that such values do not occur.
fn is_finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

fn are_finite(v: vec4<f32>) -> bool {
    return is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w);
}

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(min(-x, 80.0)));
}
