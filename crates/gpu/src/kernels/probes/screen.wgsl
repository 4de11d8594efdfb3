// For tests, after `project.wgsl`: the screen values of a splat, visible or not, and the basis of its colour.

/// Planes: (mean2d, a, b), (c, conic), (z, opacity, compensation, red); bits of (green, blue, 0, 0).
@compute @workgroup_size(256)
fn on_screen(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let stride = job.capacity;
    let p0 = splats[i];
    let g = geometry_of(p0, splats[stride + i], splats[2u * stride + i], view, (job.flags & FLAG_ANTIALIASED) != 0u);
    let colour = max(colour_at(i, direction_to(g.mean, view.origin.xyz).unit), vec3<f32>(0.0));
    screen[i] = vec4<f32>(g.mean2d, g.cov.x - LOW_PASS_VARIANCE, g.cov.y);
    screen[stride + i] = vec4<f32>(g.cov.z - LOW_PASS_VARIANCE, conic_of(g));
    screen[2u * stride + i] = vec4<f32>(g.point.z, g.opacity_raw * g.compensation, sqrt(g.det_raw * g.inverse_det), colour.x);
    boxes[i] = vec4<u32>(bitcast<u32>(colour.y), bitcast<u32>(colour.z), 0u, 0u);
}

/// Four blocks of the basis; the last one as bits.
@compute @workgroup_size(256)
fn basis(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let stride = job.capacity;
    let d = direction_to(splats[i].xyz, view.origin.xyz).unit;
    screen[i] = basis_of(0u, d);
    screen[stride + i] = basis_of(1u, d);
    screen[2u * stride + i] = basis_of(2u, d);
    boxes[i] = bitcast<vec4<u32>>(basis_of(3u, d));
}
