// Opacity as a weight in draws: an integer, so that sums of weights do not depend on their order.

fn weight_of(logit: f32) -> u32 {
    return u32(sigmoid(logit) * 1073741824.0);
}
