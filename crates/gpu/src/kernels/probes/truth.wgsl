// For tests: `truth.wgsl` for an image of three floats per pixel.

fn truth(x: u32, y: u32, channel: u32) -> f32 {
    return bitcast<f32>(picture[3u * (y * job.width + x) + channel]);
}
