// For tests, after `project_vjp.wgsl`: rotation and covariance of a shape, and the VJP of the covariance in the world.
// Sums over three rows are sums over two and one.

/// The gradient of the covariance, three rows in three planes, is replaced by the rotation; then follow three planes of
/// the covariance, one of the gradient of the quaternion, one of that of the log scales.
@compute @workgroup_size(256)
fn shape(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = group_index(group) * 256u + thread;
    if (i >= job.splats) { return; }
    let stride = job.capacity;
    let s = shape_of(splats[stride + i], splats[2u * stride + i].xyz);
    let u0 = s.r0 * s.scale;
    let u1 = s.r1 * s.scale;
    let u2 = s.r2 * s.scale;
    // 2 dcov: the gradient plus its transpose.
    let w0 = directions[i].xyz;
    let w1 = directions[stride + i].xyz;
    let w2 = directions[2u * stride + i].xyz;
    let d0 = (w0.x + w0.x) * s.r0 + (w0.y + w1.x) * s.r1 + (w0.z + w2.x) * s.r2;
    let d1 = (w1.x + w0.y) * s.r0 + (w1.y + w1.y) * s.r1 + (w1.z + w2.y) * s.r2;
    let d2 = (w2.x + w0.z) * s.r0 + (w2.y + w1.z) * s.r1 + (w2.z + w2.z) * s.r2;
    let two = shape_vjp(s, s.r0, d0, s.r1, d1);
    let third = shape_vjp(s, s.r2, d2, vec3<f32>(0.0), vec3<f32>(0.0));
    directions[i] = vec4<f32>(s.r0, 0.0);
    directions[stride + i] = vec4<f32>(s.r1, 0.0);
    directions[2u * stride + i] = vec4<f32>(s.r2, 0.0);
    directions[3u * stride + i] = vec4<f32>(dot(u0, u0), dot(u0, u1), dot(u0, u2), 0.0);
    directions[4u * stride + i] = vec4<f32>(dot(u1, u0), dot(u1, u1), dot(u1, u2), 0.0);
    directions[5u * stride + i] = vec4<f32>(dot(u2, u0), dot(u2, u1), dot(u2, u2), 0.0);
    directions[6u * stride + i] = two.quat + third.quat;
    directions[7u * stride + i] = vec4<f32>(two.log_scale + third.log_scale, 0.0);
}
