// The target colours of an image for the loss: RGBA bytes, coverage in A.

/// A channel of the target: a byte as a fraction of 255, composited by coverage over the background under its gain.
fn truth(x: u32, y: u32, channel: u32) -> f32 {
    let word = picture[y * job.width + x];
    let value = f32((word >> (8u * channel)) & 255u) / 255.0;
    if ((job.flags & FLAG_COVERAGE) == 0u) { return value; }
    let coverage = f32(word >> 24u) / 255.0;
    var behind = job.background.x;
    if (channel == 1u) { behind = job.background.y; }
    if (channel == 2u) { behind = job.background.z; }
    if (has_gain()) { behind = min(1.0, behind * gain_of(channel)); }
    return fma(value, coverage, behind * (1.0 - coverage));
}
