//! LPIPS (Zhang et al. 2018), version 0.1 on AlexNet: perceptual distance of two images by the features of a
//! classification network. The weights are third-party and not included: the user provides a file with them.
//!
//! ```text
//! x in -1..1, then (x - shift) / scale per channel
//! conv 11x11/4 3→64 · relu ①  pool 3x3/2 · conv 5x5 64→192 · relu ②  pool 3x3/2 · conv 3x3 192→384 · relu ③
//! conv 3x3 384→256 · relu ④  conv 3x3 256→256 · relu ⑤
//! LPIPS = Σ over ①..⑤ of the mean over pixels of  Σ_c w_c (a_c / (|a| + ε) - b_c / (|b| + ε))²,  ε = 1e-10
//! ```
//! The file is the state of `lpips.LPIPS(net="alex")` as safetensors in f32 (docs/reference/quality.md):
//! `net.slice1.0.weight`, …, `lin4.model.1.weight`. Plain f32, planes of channels; each output channel is one task
//! with a fixed order of summation.

use gausset_compute::Pool;
use safetensors::{Dtype, SafeTensors};

/// Per channel, for values in -1..1: subtracted, and then divided by `SCALE`.
const SHIFT: [f32; 3] = [-0.030, -0.088, -0.188];
const SCALE: [f32; 3] = [0.458, 0.448, 0.450];
/// Prevents a division by zero at pixels without features.
const EPSILON: f32 = 1e-10;

/// A convolution of the network.
struct Layer {
    /// Prefix of the names of its tensors.
    name: &'static str,
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    /// Whether max pooling over 3x3 pixels with stride 2 comes before it.
    pooled: bool,
}

const fn layer(name: &'static str, [inputs, outputs]: [usize; 2], kernel: usize, pooled: bool) -> Layer {
    let (stride, padding) = if kernel == 11 { (4, 2) } else { (1, kernel / 2) };
    Layer { name, inputs, outputs, kernel, stride, padding, pooled }
}

const LAYERS: [Layer; 5] = [
    layer("net.slice1.0", [3, 64], 11, false),
    layer("net.slice2.3", [64, 192], 5, true),
    layer("net.slice3.6", [192, 384], 3, true),
    layer("net.slice4.8", [384, 256], 3, false),
    layer("net.slice5.10", [256, 256], 3, false),
];

/// Why a file does not contain the weights of LPIPS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LpipsError {
    /// The container format is invalid.
    #[error("not a safetensors file: {0}")]
    Container(String),
    /// A tensor is missing.
    #[error("has no tensor `{0}` (expected the state of lpips.LPIPS(net=\"alex\"))")]
    Missing(String),
    /// A tensor has the wrong type, shape or values.
    #[error("tensor `{name}` is {found} (expected f32 of shape {expected:?}, all finite)")]
    WrongTensor {
        /// Name of the tensor.
        name: String,
        /// Type and shape found.
        found: String,
        /// Shape expected.
        expected: Vec<usize>,
    },
}

/// Weights of a layer: kernels, biases, and the weight of each output channel in the distance.
#[derive(Clone, Debug)]
struct LayerWeights {
    /// `outputs × inputs × kernel × kernel`.
    kernels: Vec<f32>,
    biases: Vec<f32>,
    output_weights: Vec<f32>,
}

/// The network with its weights.
#[derive(Clone, Debug)]
pub struct Lpips {
    layers: Vec<LayerWeights>,
}

/// Feature planes: `channels × height × width`.
struct FeaturePlanes {
    width: usize,
    height: usize,
    values: Vec<f32>,
}

impl Lpips {
    /// Maximum size of a weights file, in bytes: the weights take about 10 MiB, the rest allows for other contents.
    pub const MAX_FILE_BYTES: u64 = 32 << 20;

    /// Reads the weights from the bytes of a file.
    ///
    /// # Errors
    /// The file does not contain the weights of LPIPS 0.1 on AlexNet in f32.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LpipsError> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| LpipsError::Container(e.to_string()))?;
        let mut layers = Vec::with_capacity(LAYERS.len());
        for (number, Layer { name, inputs, outputs, kernel, .. }) in LAYERS.iter().enumerate() {
            layers.push(LayerWeights {
                kernels: tensor(&file, format!("{name}.weight"), &[*outputs, *inputs, *kernel, *kernel])?,
                biases: tensor(&file, format!("{name}.bias"), &[*outputs])?,
                output_weights: tensor(&file, format!("lin{number}.model.1.weight"), &[1, *outputs, 1, 1])?,
            });
        }
        Ok(Self { layers })
    }

    /// The distance of two images (interleaved RGB in 0..1, `height × width × 3`); NaN if an image is too small for the
    /// network (a side below 31 px). Masked pixels of `a` are replaced by those of `b`.
    ///
    /// # Panics
    /// If the images do not have that size.
    #[must_use]
    pub fn distance(
        &self,
        pool: &Pool,
        [width, height]: [usize; 2],
        a: &[f32],
        b: &[f32],
        mask: Option<&[u8]>,
    ) -> f64 {
        assert_eq!((a.len(), b.len()), (3 * width * height, 3 * width * height), "image sizes differ");
        let filled = |i: usize| if mask.is_none_or(|mask| mask[i / 3] != 0) { a[i] } else { b[i] };
        let mut a = input([width, height], filled);
        let mut b = input([width, height], |i| b[i]);
        let mut sum = 0.0;
        for (layer, weights) in LAYERS.iter().zip(&self.layers) {
            let (Some(next_a), Some(next_b)) =
                (forward(pool, layer, weights, &a), forward(pool, layer, weights, &b))
            else {
                return f64::NAN;
            };
            (a, b) = (next_a, next_b);
            sum += difference(&a, &b, &weights.output_weights);
        }
        sum
    }
}

/// The values of a tensor with this shape.
fn tensor(file: &SafeTensors<'_>, name: String, shape: &[usize]) -> Result<Vec<f32>, LpipsError> {
    let Ok(view) = file.tensor(&name) else { return Err(LpipsError::Missing(name)) };
    let (values, _) = view.data().as_chunks::<4>();
    let values: Vec<f32> = values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    if view.dtype() != Dtype::F32 || view.shape() != shape || !values.iter().all(|v| v.is_finite()) {
        let found = format!("{:?} of shape {:?}", view.dtype(), view.shape());
        return Err(LpipsError::WrongTensor { name, found, expected: shape.to_vec() });
    }
    Ok(values)
}

/// An image as network input.
fn input([width, height]: [usize; 2], value: impl Fn(usize) -> f32) -> FeaturePlanes {
    let mut values = Vec::with_capacity(3 * width * height);
    for channel in 0..3 {
        let scaled =
            |pixel: usize| (2.0 * value(3 * pixel + channel) - 1.0 - SHIFT[channel]) / SCALE[channel];
        values.extend((0..width * height).map(scaled));
    }
    FeaturePlanes { width, height, values }
}

/// A layer with the pooling before it; `None` if the output would be empty.
fn forward(
    pool: &Pool,
    layer: &Layer,
    weights: &LayerWeights,
    input: &FeaturePlanes,
) -> Option<FeaturePlanes> {
    let pooled;
    let input = if layer.pooled {
        pooled = max_pool(input)?;
        &pooled
    } else {
        input
    };
    let side = |side: usize| Some((side + 2 * layer.padding).checked_sub(layer.kernel)? / layer.stride + 1);
    let (width, height) = (side(input.width)?, side(input.height)?);
    let mut values = vec![0.0; layer.outputs * width * height];
    let taps = layer.kernel * layer.kernel;
    pool.run_chunks(&mut values, width * height, |output, out| {
        out.fill(weights.biases[output]);
        let kernels = &weights.kernels[output * layer.inputs * taps..][..layer.inputs * taps];
        for (kernel, plane) in
            kernels.chunks_exact(taps).zip(input.values.chunks_exact(input.width * input.height))
        {
            for (tap, &weight) in kernel.iter().enumerate() {
                let (tap_y, tap_x) = (tap / layer.kernel, tap % layer.kernel);
                for (y, row) in out.chunks_exact_mut(width).enumerate() {
                    let Some(from_y) = (y * layer.stride + tap_y).checked_sub(layer.padding) else {
                        continue;
                    };
                    let Some(from) = plane.get(from_y * input.width..(from_y + 1) * input.width) else {
                        continue;
                    };
                    add_row(row, from, weight, tap_x, layer);
                }
            }
        }
        out.iter_mut().for_each(|v| *v = v.max(0.0));
    });
    Some(FeaturePlanes { width, height, values })
}

/// Adds one tap of a kernel to a row of the output; the input is zero-padded.
fn add_row(row: &mut [f32], from: &[f32], weight: f32, tap_x: usize, layer: &Layer) {
    let Layer { stride, padding, .. } = *layer;
    // The first output whose input is inside.
    let first = padding.saturating_sub(tap_x).div_ceil(stride);
    let Some(from) = from.get(first * stride + tap_x - padding..) else { return };
    let Some(row) = row.get_mut(first..) else { return };
    if stride == 1 {
        row.iter_mut().zip(from).for_each(|(out, value)| *out += weight * value);
    } else {
        row.iter_mut().zip(from.iter().step_by(stride)).for_each(|(out, value)| *out += weight * value);
    }
}

/// Max pooling over 3x3 pixels with stride 2; `None` if the output would be empty.
fn max_pool(input: &FeaturePlanes) -> Option<FeaturePlanes> {
    let side = |side: usize| Some(side.checked_sub(3)? / 2 + 1);
    let (width, height) = (side(input.width)?, side(input.height)?);
    let mut values = Vec::with_capacity(input.values.len() / 4);
    for plane in input.values.chunks_exact(input.width * input.height) {
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let row = |k: usize| plane[(2 * y + k) * input.width + 2 * x..][..3].iter().copied();
            values.push(row(0).chain(row(1)).chain(row(2)).fold(f32::NEG_INFINITY, f32::max));
        }
    }
    Some(FeaturePlanes { width, height, values })
}

/// Weighted squared difference of normalised features, mean over pixels.
fn difference(a: &FeaturePlanes, b: &FeaturePlanes, weights: &[f32]) -> f64 {
    let pixels = a.width * a.height;
    let lengths = |planes: &FeaturePlanes| -> Vec<f32> {
        let mut squares = vec![0.0f32; pixels];
        for plane in planes.values.chunks_exact(pixels) {
            squares.iter_mut().zip(plane).for_each(|(sum, v)| *sum += v * v);
        }
        squares.iter().map(|sum| sum.sqrt() + EPSILON).collect()
    };
    let (length_a, length_b) = (lengths(a), lengths(b));
    let mut sum = 0.0;
    let planes = a.values.chunks_exact(pixels).zip(b.values.chunks_exact(pixels));
    for ((a, b), &weight) in planes.zip(weights) {
        let of_pixel = |i: usize| {
            let d = f64::from(a[i] / length_a[i] - b[i] / length_b[i]);
            d * d
        };
        sum += f64::from(weight) * (0..pixels).map(of_pixel).sum::<f64>();
    }
    sum / pixels as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng::{philox, stream, uniform};
    use safetensors::tensor::TensorView;

    fn draw(set: u64, i: usize) -> f32 {
        uniform(philox(9, stream::TEST, set, i as u32)[0])
    }

    /// Random weights under the tensor names of the file, scaled so that features stay non-zero.
    fn tensors() -> Vec<(String, Vec<usize>, Vec<f32>)> {
        let mut out = Vec::new();
        for (number, l) in LAYERS.iter().enumerate() {
            let inputs = l.inputs * l.kernel * l.kernel;
            let mut add = |name: String, shape: Vec<usize>, low: f32, high: f32| {
                let count = shape.iter().product();
                let set = out.len() as u64;
                let values = (0..count).map(|i| low + (high - low) * draw(set, i)).collect();
                out.push((name, shape, values));
            };
            let spread = (6.0 / inputs as f32).sqrt();
            let shape = vec![l.outputs, l.inputs, l.kernel, l.kernel];
            add(format!("{}.weight", l.name), shape, -spread, spread);
            add(format!("{}.bias", l.name), vec![l.outputs], -0.1, 0.1);
            add(format!("lin{number}.model.1.weight"), vec![1, l.outputs, 1, 1], 0.0, 0.5);
        }
        out
    }

    fn file(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
        let bytes: Vec<Vec<u8>> =
            tensors.iter().map(|(_, _, v)| v.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
        let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
            (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize(views, None).unwrap()
    }

    /// The definition in f64: every output separately, zeros outside.
    fn by_definition(
        tensors: &[(String, Vec<usize>, Vec<f32>)],
        [w, h]: [usize; 2],
        pictures: [&[f32]; 2],
    ) -> f64 {
        let mut sum = 0.0;
        let mut state = pictures.map(|picture| {
            let value = |c: usize, p: usize| {
                (2.0 * f64::from(picture[3 * p + c]) - 1.0 - f64::from(SHIFT[c])) / f64::from(SCALE[c])
            };
            let planes: Vec<Vec<f64>> = (0..3).map(|c| (0..w * h).map(|p| value(c, p)).collect()).collect();
            (w, h, planes)
        });
        for (l, tensors) in LAYERS.iter().zip(tensors.chunks_exact(3)) {
            for (width, height, planes) in &mut state {
                if l.pooled {
                    let (pw, ph) = ((*width - 3) / 2 + 1, (*height - 3) / 2 + 1);
                    let best = |plane: &Vec<f64>, i: usize| {
                        let (x, y) = (i % pw * 2, i / pw * 2);
                        let at = |k: usize| plane[(y + k / 3) * *width + x + k % 3];
                        (0..9).map(at).fold(f64::MIN, f64::max)
                    };
                    *planes = planes.iter().map(|p| (0..pw * ph).map(|i| best(p, i)).collect()).collect();
                    (*width, *height) = (pw, ph);
                }
                let side = |side: usize| (side + 2 * l.padding - l.kernel) / l.stride + 1;
                let (ow, oh) = (side(*width), side(*height));
                let output = |o: usize, i: usize| {
                    let mut value = f64::from(tensors[1].2[o]);
                    for (c, plane) in planes.iter().enumerate() {
                        for k in 0..l.kernel * l.kernel {
                            let y = (i / ow * l.stride + k / l.kernel) as isize - l.padding as isize;
                            let x = (i % ow * l.stride + k % l.kernel) as isize - l.padding as isize;
                            if (0..*height as isize).contains(&y) && (0..*width as isize).contains(&x) {
                                let weight = tensors[0].2[(o * l.inputs + c) * l.kernel * l.kernel + k];
                                value += f64::from(weight) * plane[y as usize * *width + x as usize];
                            }
                        }
                    }
                    value.max(0.0)
                };
                let next = (0..l.outputs).map(|o| (0..ow * oh).map(|i| output(o, i)).collect()).collect();
                (*width, *height, *planes) = (ow, oh, next);
            }
            let [(w, h, a), (_, _, b)] = &state;
            let mut here = 0.0;
            for p in 0..w * h {
                let length = |planes: &Vec<Vec<f64>>| {
                    planes.iter().map(|plane| plane[p] * plane[p]).sum::<f64>().sqrt() + 1e-10
                };
                let (la, lb) = (length(a), length(b));
                for c in 0..l.outputs {
                    here += f64::from(tensors[2].2[c]) * (a[c][p] / la - b[c][p] / lb).powi(2);
                }
            }
            sum += here / (w * h) as f64;
        }
        sum
    }

    #[test]
    fn the_distance_is_that_of_the_definition_zero_for_equals_and_blind_to_masked_pixels() {
        let tensors = tensors();
        let lpips = Lpips::from_bytes(&file(&tensors)).unwrap();
        let size @ [width, height] = [47, 39];
        let picture = |set: u64| -> Vec<f32> { (0..3 * width * height).map(|i| draw(set, i)).collect() };
        let (a, b) = (picture(100), picture(101));
        let found = lpips.distance(&Pool::new(1), size, &a, &b, None);
        let expected = by_definition(&tensors, size, [&a, &b]);
        // f32 sums of up to 3,456 terms.
        assert!(expected > 0.01 && (found - expected).abs() < 1e-4 * expected, "{found} {expected}");
        assert_eq!(found, lpips.distance(&Pool::new(2), size, &a, &b, None), "whatever the threads");
        assert_eq!(lpips.distance(&Pool::new(1), size, &a, &a, None), 0.0);
        assert_eq!(lpips.distance(&Pool::new(1), size, &a, &b, Some(&vec![0; width * height])), 0.0);
        let small = vec![0.0; 3 * 30 * 40];
        assert!(lpips.distance(&Pool::new(1), [30, 40], &small, &small, None).is_nan());
    }

    #[test]
    fn a_file_that_is_something_else_is_refused_with_what_is_wrong_with_it() {
        assert!(Lpips::from_bytes(b"PK").unwrap_err().to_string().starts_with("not a safetensors file: "));
        let mut all = tensors();
        let last = all.pop().unwrap();
        let missing = Lpips::from_bytes(&file(&all)).unwrap_err();
        assert_eq!(missing, LpipsError::Missing("lin4.model.1.weight".to_owned()));
        all.push((last.0, vec![256], last.2));
        let wrong = Lpips::from_bytes(&file(&all)).unwrap_err().to_string();
        assert_eq!(
            wrong,
            "tensor `lin4.model.1.weight` is F32 of shape [256] (expected f32 of shape [1, 256, 1, 1], all finite)"
        );
    }
}
