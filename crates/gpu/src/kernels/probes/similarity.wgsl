// For tests, after `loss.wgsl`: S of each pixel, with sums in the same order.

fn moments_at(x: i32, y: i32, channel: u32) -> vec4<f32> {
    let pair = pair_at(x, y, channel);
    return vec4<f32>(pair, fma(pair.x, pair.x, pair.y * pair.y), pair.x * pair.y);
}

/// Moments filtered down a column.
fn down(x: i32, y: i32, channel: u32) -> vec4<f32> {
    var sum = vec4<f32>(0.0);
    for (var t = 5; t >= 1; t--) {
        sum = fma(vec4<f32>(tap(u32(t))), moments_at(x, y - t, channel) + moments_at(x, y + t, channel), sum);
    }
    sum = fma(vec4<f32>(tap(0u)), moments_at(x, y, channel), sum);
    return sum;
}

@compute @workgroup_size(256)
fn map(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let here = place_of(group_index(group), thread);
    if (!here.inside) { return; }
    let x = i32(here.at.x);
    let y = i32(here.at.y);
    for (var channel = 0u; channel < 3u; channel++) {
        var m = vec4<f32>(0.0);
        for (var t = 5; t >= 1; t--) {
            m = fma(vec4<f32>(tap(u32(t))), down(x - t, y, channel) + down(x + t, y, channel), m);
        }
        m = fma(vec4<f32>(tap(0u)), down(x, y, channel), m);
        derivatives[3u * (here.at.y * job.width + here.at.x) + channel] = similarity(m).w;
    }
}
