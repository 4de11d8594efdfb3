//! Distant initial points where a reconstruction has none: sky and horizon for training.
//!
//! Structure from motion reconstructs no sky, and splats that start near the ground do not reach it in a short
//! training. Panoramas show every direction, so points on a distant shell can be initialised with the correct colour.
//! Directions are spread evenly over the upper hemisphere (golden-angle spiral, Swinbank and Purser 2006), except where
//! the reconstruction has points nearby. The radius of the shell is four times the 90th percentile of the distances of
//! the reconstructed points.

use std::path::Path;

use gausset_core::se3::{self, cross, distance, dot};
use gausset_io::dataset::colmap::ColmapPoint;

use crate::cut::split::SplitDescription;
use crate::poses::export::registered;
use crate::sphere::aligned::AlignedPoses;

/// Number of points of the full upper hemisphere.
const HEMISPHERE_POINTS: usize = 3000;
/// Cosine of the angle (4 degrees) within which a reconstructed point suppresses a direction.
const SUPPRESSION_COSINE: f64 = 0.997_56;
/// Sine of the lowest elevation, 5 degrees: below it the ground is visible.
const MIN_ELEVATION_SINE: f64 = 0.087;
/// Maximum number of frames that are sampled for colours, spread evenly.
const MAX_FRAMES: usize = 8;

/// Points of the shell for a split in `folder`. Empty if `known` has no points or the frames have no common up
/// direction.
#[must_use]
pub fn far_points(
    folder: &Path,
    description: &SplitDescription,
    poses: &AlignedPoses,
    known: &[ColmapPoint],
) -> Vec<ColmapPoint> {
    let frames: Vec<_> = registered(description, poses).collect();
    let share = 1.0 / frames.len().max(1) as f64;
    let (mut centre, mut up) = ([0.0; 3], [0.0; 3]);
    for (_, pose) in &frames {
        let own_up = se3::transpose_mul_vec(&pose.rotation, [0.0, -1.0, 0.0]);
        for k in 0..3 {
            centre[k] += share * pose.centre()[k];
            up[k] += share * own_up[k];
        }
    }
    let length = se3::norm(up);
    let mut distances: Vec<f64> = known.iter().map(|p| distance(p.position, centre)).collect();
    distances.sort_by(f64::total_cmp);
    let Some(&far) = distances.get(distances.len() * 9 / 10).filter(|_| length > 0.5) else {
        return Vec::new();
    };
    let up = up.map(|v| v / length);
    let radius = 4.0 * far;
    let seen: Vec<[f64; 3]> = known.iter().filter_map(|p| unit(se3::sub(p.position, centre))).collect();
    let directions: Vec<[f64; 3]> =
        upper_half(up).filter(|d| !seen.iter().any(|s| dot(*s, *d) > SUPPRESSION_COSINE)).collect();
    let mut sums = vec![[0.0f64; 4]; directions.len()];
    let step = frames.len().div_ceil(MAX_FRAMES).max(1);
    for (frame, pose) in frames.iter().step_by(step) {
        let in_pano: Vec<[f64; 3]> = directions.iter().map(|&d| se3::mul_vec(&pose.rotation, d)).collect();
        add_colours(folder, description, *frame, &in_pano, &mut sums);
    }
    let first_id = known.iter().map(|p| p.id).max().unwrap_or(0) + 1;
    let coloured = directions.iter().zip(&sums).filter(|(_, sum)| sum[3] > 0.0);
    (first_id..)
        .zip(coloured)
        .map(|(id, (d, sum))| ColmapPoint {
            id,
            position: [0, 1, 2].map(|k| centre[k] + radius * d[k]),
            colour: [0, 1, 2].map(|k| (sum[k] / sum[3] + 0.5) as u8),
            error: 0.0,
            track_length: 0,
            track: Vec::new(),
        })
        .collect()
}

/// Directions of the upper hemisphere above [`MIN_ELEVATION_SINE`].
fn upper_half(up: [f64; 3]) -> impl Iterator<Item = [f64; 3]> {
    // Any two axes orthogonal to up.
    let helper = if up[0].abs() < 0.8 { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] };
    let a = unit(cross(up, helper)).unwrap_or([1.0, 0.0, 0.0]);
    let b = cross(up, a);
    (0..HEMISPHERE_POINTS).filter_map(move |k| {
        let height = (k as f64 + 0.5) / HEMISPHERE_POINTS as f64;
        let turn = 2.399_963_229_728_653 * k as f64;
        let (c, s) = (libm::cos(turn), libm::sin(turn));
        let flat = libm::sqrt(1.0 - height * height);
        (height >= MIN_ELEVATION_SINE)
            .then(|| [0, 1, 2].map(|i| height * up[i] + flat * (c * a[i] + s * b[i])))
    })
}

/// Adds the colours that a frame's views show in each direction (panorama axes): sums of RGB and a count.
fn add_colours(
    folder: &Path,
    description: &SplitDescription,
    frame: usize,
    directions: &[[f64; 3]],
    sums: &mut [[f64; 4]],
) {
    let views = &description.views;
    let axes: Vec<[f64; 3]> =
        views.iter().map(|v| se3::mul_vec(&v.pano_from_camera(), [0.0, 0.0, 1.0])).collect();
    let best = |d: [f64; 3]| {
        (0..views.len()).max_by(|&a, &b| dot(axes[a], d).total_cmp(&dot(axes[b], d))).unwrap_or(0)
    };
    let owner: Vec<usize> = directions.iter().map(|&d| best(d)).collect();
    for (index, view) in views.iter().enumerate().filter(|(index, _)| owner.contains(index)) {
        let path = folder.join("images").join(description.image_name(frame, index));
        // A view that cannot be read contributes no colours.
        let Ok(picture) = gausset_io::image::decode_file(&path) else { continue };
        let camera_from_pano = se3::transpose(&view.pano_from_camera());
        let (w, h) = (f64::from(picture.width), f64::from(picture.height));
        for ((sum, &d), _) in sums.iter_mut().zip(directions).zip(&owner).filter(|(_, o)| **o == index) {
            let [x, y, z] = se3::mul_vec(&camera_from_pano, d);
            let (px, py) = (0.5 * w + view.focal() * x / z, 0.5 * h + view.focal() * y / z);
            if z > 0.0 && px >= 0.0 && py >= 0.0 && px < w && py < h {
                let at = 3 * (py as usize * picture.width as usize + px as usize);
                for (sum, &value) in sum.iter_mut().zip(&picture.rgb[at..at + 3]) {
                    *sum += f64::from(value);
                }
                sum[3] += 1.0;
            }
        }
    }
}

fn unit(v: [f64; 3]) -> Option<[f64; 3]> {
    let length = se3::norm(v);
    (length > 0.0).then(|| v.map(|x| x / length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::split::Naming;
    use crate::sphere::aligned::FramePose;
    use crate::sphere::layout::Layout;

    #[test]
    fn the_shell_has_the_colours_of_the_panorama_and_leaves_out_what_is_known() {
        // Right half red, left half blue, in panorama axes; the camera is at x = 5, rotated by 90 degrees.
        let views = Layout::Cube6.views(16, 16, None);
        let folder = tempfile::tempdir().unwrap();
        for view in &views {
            let r = view.pano_from_camera();
            let pixels: Vec<u8> = (0..256)
                .flat_map(|i| {
                    let ray = view.ray_in_camera((i % 16) as f64 + 0.5, (i / 16) as f64 + 0.5);
                    if se3::mul_vec(&r, ray)[0] > 0.0 { [200, 0, 0] } else { [0, 0, 200] }
                })
                .collect();
            let path = folder.path().join("images").join(&view.name);
            std::fs::create_dir_all(&path).unwrap();
            let kind = gausset_io::image::encode::PngPixels::Rgb8(&pixels);
            std::fs::write(path.join("a.png"), gausset_io::image::encode::png(16, 16, kind, &[]).unwrap())
                .unwrap();
        }
        let description = SplitDescription {
            views,
            naming: Naming::Rig,
            extension: "png".into(),
            frames: vec!["a".into()],
            numbers: vec![],
            lens_axes: None,
            levelled: false,
            needs_conversion: false,
        };
        // world_from_pano = Ry(90): the panorama's right is the world's -z.
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let rotation = Some([half, 0.0, -half, 0.0]);
        let probe = gausset_core::Pose::from_quaternion([half, 0.0, -half, 0.0], [0.0; 3]).unwrap();
        let translation = se3::mul_vec(&probe.rotation, [5.0, 0.0, 0.0]).map(|v| -v);
        let frames = vec![FramePose { name: "a".into(), rotation, translation: Some(translation) }];
        let poses = AlignedPoses { frames, ..AlignedPoses::default() };
        let point = |id, position| ColmapPoint {
            id,
            position,
            colour: [0; 3],
            error: 0.0,
            track_length: 0,
            track: Vec::new(),
        };
        let known = [point(7, [5.0, -10.0, 0.0]), point(9, [5.0, 10.0, 0.0])];
        let points = far_points(folder.path(), &description, &poses, &known);
        assert!(points.len() > 2700 && points[0].id == 10);
        let right = se3::transpose_mul_vec(&probe.rotation, [1.0, 0.0, 0.0]);
        for p in &points {
            let d = se3::sub(p.position, [5.0, 0.0, 0.0]);
            assert!((se3::norm(d) - 40.0).abs() < 1e-9);
            // y points down; a known point is straight up.
            assert!(d[1] < -3.0 && -d[1] / 40.0 < 0.9977, "{d:?}");
            // Away from the border of both colours, where a pixel may show either.
            if dot(d, right).abs() > 8.0 {
                assert_eq!(p.colour, if dot(d, right) > 0.0 { [200, 0, 0] } else { [0, 0, 200] });
            }
        }
    }
}
