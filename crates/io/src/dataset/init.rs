//! Initial splats, from points or random (`docs`: start of training).
//!
//! | parameter | start |
//! |---|---|
//! | mean | position of the point |
//! | scale, all axes | `factor · sqrt(max(mean of the 3 squared neighbour distances, 1e-7))`; the median scale for points farther than 100 medians from their neighbours |
//! | rotation | identity |
//! | opacity | [`InitOptions::opacity`] |
//! | SH 0 | the point's colour; all others 0 |
//!
//! Neighbours are exact (k-d tree); coincident points are neighbours at distance 0. Without points, positions are
//! drawn from counter-based random numbers in a cube around the point nearest to all optical axes, with the median camera
//! distance as half side; 0.32 of it for Blender-style data.

use std::num::NonZero;

use gausset_compute::rng;
use gausset_core::statistics::median;
use gausset_core::{Pose, Splats, se3, sh};
use kiddo::{ImmutableKdTree, SquaredEuclidean};

use super::{Dataset, DatasetKind, far_cameras};

/// Number of nearest neighbours that determine the scale.
const NEIGHBOURS: usize = 3;
/// Smallest mean squared distance, so that coincident points get a scale above zero (fixtures).
const SMALLEST_SQUARED_DISTANCE: f64 = 1e-7;
/// Points whose neighbours are farther than this many median distances get the median scale.
const OUTLIER_FACTOR: f64 = 100.0;
/// Half side of the cube of Blender-style data, in distances of the cameras: 1.3 of 4.03 covers the NeRF-synthetic objects.
const BLENDER_HALF_SIDE: f64 = 0.3225;
/// Optical axes are parallel if the determinant of their (normalised) normal equations is below this.
const PARALLEL_AXES: f64 = 1e-9;

/// Options of the initial splats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InitOptions {
    /// SH degree of the splats; coefficients above degree 0 start at 0.
    pub sh_degree: u8,
    /// Opacity of each splat, between 0 and 1, both exclusive.
    pub opacity: f32,
    /// Factor on the neighbour distance: 1 (classic) or 0.1 (MCMC).
    pub scale_factor: f32,
    /// Number of random splats if there are no points.
    pub random_count: usize,
    /// Largest number of splats; more points are thinned evenly. 0 means no limit.
    pub max_splats: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl InitOptions {
    /// Classic start: opacity 0.1, scale = neighbour distance (Kerbl et al. 2023).
    pub const CLASSIC: Self =
        Self { sh_degree: 3, opacity: 0.1, scale_factor: 1.0, random_count: 100_000, max_splats: 0, seed: 0 };
    /// MCMC start: opacity 0.5, scale = a tenth of the neighbour distance (gsplat's values).
    pub const MCMC: Self = Self { opacity: 0.5, scale_factor: 0.1, ..Self::CLASSIC };
}

/// Initial splats with a line that describes their origin.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialSplats {
    /// The splats, all with the opacity of the options.
    pub splats: Splats,
    /// One line of text, e.g. `100000 random splats in the cube that the cameras look at (the dataset has no points)`.
    pub note: String,
    /// Whether the positions are random.
    pub is_random: bool,
}

/// A cube in world axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InitialCube {
    /// Centre in world space, scene units.
    pub centre: [f64; 3],
    /// Half of its side.
    pub half_side: f64,
}

/// Initial splats for a dataset: from its points, or random ones in the common volume of the cameras.
#[must_use]
pub fn initial_splats(dataset: &Dataset, options: &InitOptions) -> InitialSplats {
    let _span = gausset_prof::span("init");
    if dataset.points.is_empty() {
        let mut start = random_splats(&initial_cube(dataset), options);
        start.note += " (the dataset has no points)";
        return start;
    }
    let points = &dataset.points;
    let colour = |i: usize| points[i].colour.map(|c| f32::from(c) / 255.0);
    from_closures(points.len(), |i| points[i].position, colour, options)
}

/// The cube for the random splats of a dataset without points: the volume that its training views look at.
#[must_use]
pub fn initial_cube(dataset: &Dataset) -> InitialCube {
    let poses: Vec<Pose> = dataset.split.train.iter().map(|&i| dataset.images[i].pose).collect();
    let cube = common_cube(&poses, dataset.scene_extent);
    match dataset.kind {
        DatasetKind::Blender => InitialCube { half_side: BLENDER_HALF_SIDE * cube.half_side, ..cube },
        _ => cube,
    }
}

/// Initial splats from points and colours in 0..1 (`None`: grey). Points with coordinates or colours that are not
/// finite are dropped.
#[must_use]
pub fn from_points(
    points: &[[f64; 3]],
    colours: Option<&[[f32; 3]]>,
    options: &InitOptions,
) -> InitialSplats {
    let colour = |i: usize| colours.and_then(|c| c.get(i)).copied().unwrap_or([0.5; 3]);
    from_closures(points.len(), |i| points[i], colour, options)
}

/// As [`from_points`], with points from closures.
fn from_closures(
    count: usize,
    point: impl Fn(usize) -> [f64; 3],
    colour: impl Fn(usize) -> [f32; 3],
    options: &InitOptions,
) -> InitialSplats {
    // Splats are f32: coordinates beyond its range are unusable as well.
    let is_usable = |&i: &usize| {
        point(i).iter().all(|&v| (v as f32).is_finite()) && colour(i).iter().all(|c| c.is_finite())
    };
    let usable = (0..count).filter(is_usable).count();
    let wanted = if options.max_splats == 0 { usable } else { options.max_splats.min(usable) };
    // Keeps the usable points `k usable / wanted`, rounded down.
    let mut kept = Vec::with_capacity(wanted);
    for (number, i) in (0..count).filter(is_usable).enumerate() {
        if kept.len() < wanted && (kept.len() as u128 * usable as u128 / wanted as u128) as usize == number {
            kept.push(i);
        }
    }
    let dropped = count - usable;
    let means: Vec<[f64; 3]> = kept.iter().map(|&i| point(i)).collect();
    let (splats, lonely) = create_splats(&means, |i| colour(kept[i]), options);
    let mut note = format!("{} splats from points", splats.len());
    let mut details = Vec::new();
    if kept.len() < usable {
        details.push(format!("thinned from {usable}"));
    }
    if dropped > 0 {
        details.push(format!("{dropped} dropped as not finite"));
    }
    if lonely > 0 {
        details.push(format!("{lonely} isolated, at the median scale"));
    }
    if !details.is_empty() {
        note += &format!(" ({})", details.join("; "));
    }
    InitialSplats { splats, note, is_random: false }
}

/// Creates random grey splats in a cube: `random_count` of them, or `max_splats` if that is less.
#[must_use]
pub fn random_splats(cube: &InitialCube, options: &InitOptions) -> InitialSplats {
    let count = match options.max_splats {
        0 => options.random_count,
        limit => options.random_count.min(limit),
    };
    let coordinate = |axis: usize, a: u32, b: u32| {
        cube.centre[axis] + cube.half_side * (2.0 * rng::uniform_f64(a, b) - 1.0)
    };
    let means: Vec<[f64; 3]> = (0..count)
        .map(|i| {
            let w = rng::philox(options.seed, rng::stream::INIT, 0, i as u32);
            let v = rng::philox(options.seed, rng::stream::INIT, 1, i as u32);
            [coordinate(0, w[0], w[1]), coordinate(1, w[2], w[3]), coordinate(2, v[0], v[1])]
        })
        .collect();
    let (splats, _) = create_splats(&means, |_| [0.5; 3], options);
    InitialSplats {
        splats,
        note: format!("{count} random splats in the cube that the cameras look at"),
        is_random: true,
    }
}

/// The cube that the cameras look at: around the point nearest to all optical axes (least squares), with the median
/// camera distance as half side. If the axes are parallel or the cameras are at that point, a cube of half side
/// `extent` in front of the mean camera. Cameras that are far out are ignored ([`far_cameras`]).
#[must_use]
pub fn common_cube(poses: &[Pose], extent: f64) -> InitialCube {
    let far = far_cameras(&poses.iter().map(Pose::centre).collect::<Vec<_>>());
    let is_near = |(index, _): &(usize, &Pose)| far.iter().all(|(other, _)| other != index);
    let poses: Vec<&Pose> = poses.iter().enumerate().filter(is_near).map(|(_, pose)| pose).collect();
    // Σ (I − d dᵀ) p = Σ (I − d dᵀ) c, normalised by the number of cameras.
    let (mut a, mut b) = ([[0.0; 3]; 3], [0.0; 3]);
    let (mut mean_centre, mut mean_axis) = ([0.0; 3], [0.0; 3]);
    let share = 1.0 / poses.len().max(1) as f64;
    for pose in &poses {
        let (c, d) = (pose.centre(), pose.rotation[2]);
        for i in 0..3 {
            for j in 0..3 {
                let m = se3::IDENTITY3[i][j] - d[i] * d[j];
                a[i][j] += share * m;
                b[i] += share * m * c[j];
            }
            mean_centre[i] += share * c[i];
            mean_axis[i] += share * d[i];
        }
    }
    let determinant = se3::determinant(&a);
    if determinant.abs() > PARALLEL_AXES {
        let centre: [f64; 3] = std::array::from_fn(|axis| {
            let mut m = a;
            (0..3).for_each(|row| m[row][axis] = b[row]);
            se3::determinant(&m) / determinant
        });
        let distances = poses.iter().map(|pose| se3::distance(pose.centre(), centre));
        let half_side = median(distances.collect()).unwrap_or(0.0);
        if half_side > 1e-6 * extent && half_side.is_finite() {
            return InitialCube { centre, half_side };
        }
    }
    let centre = std::array::from_fn(|i| mean_centre[i] + extent * mean_axis[i]);
    InitialCube { centre, half_side: extent }
}

/// Logit of an opacity between 0 and 1, both exclusive.
#[must_use]
pub fn opacity_logit(opacity: f32) -> f32 {
    let opacity = f64::from(opacity);
    libm::log(opacity / (1.0 - opacity)) as f32
}

/// Splats at finite points, and the number of points that are too isolated for their own scale.
fn create_splats(
    points: &[[f64; 3]],
    colour: impl Fn(usize) -> [f32; 3],
    options: &InitOptions,
) -> (Splats, usize) {
    let squared = mean_squared_neighbour_distances(points);
    let median = median(squared.clone()).unwrap_or(0.0);
    let factor = libm::log(f64::from(options.scale_factor));
    let log_scale = |squared: f64| (0.5 * libm::log(squared.max(SMALLEST_SQUARED_DISTANCE)) + factor) as f32;
    let opacity_logit = opacity_logit(options.opacity);
    let mut splats = Splats::with_capacity(options.sh_degree, points.len());
    let mut coefficients = vec![0.0; splats.sh_stride()];
    let mut lonely = 0;
    for (i, (point, &squared)) in points.iter().zip(&squared).enumerate() {
        // With a median of 0 (most points coincide) every other point would be an outlier.
        let is_outlier = median > 0.0 && squared > OUTLIER_FACTOR * OUTLIER_FACTOR * median;
        lonely += usize::from(is_outlier);
        let scale = log_scale(if is_outlier { median } else { squared });
        coefficients[..3].copy_from_slice(&colour(i).map(sh::dc_from_colour));
        let mean = point.map(|v| v as f32);
        splats.push(mean, [scale; 3], [1.0, 0.0, 0.0, 0.0], opacity_logit, &coefficients);
    }
    (splats, lonely)
}

/// Mean squared distance of each point to its 3 nearest other points (exact; fewer if there are fewer, 0 for a single
/// point). Points must be finite.
///
/// Coincident points are one node of the tree with a count: thousands of them would be at equal distance, and a search
/// through ties visits all of them.
///
/// ```
/// use gausset_io::dataset::init::mean_squared_neighbour_distances;
///
/// let line = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 0.0, 0.0]];
/// let first = mean_squared_neighbour_distances(&line)[0];
/// assert!((first - (1.0 + 4.0 + 9.0) / 3.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn mean_squared_neighbour_distances(points: &[[f64; 3]]) -> Vec<f64> {
    let neighbours = NEIGHBOURS.min(points.len().saturating_sub(1));
    if neighbours == 0 {
        return vec![0.0; points.len()];
    }
    let mut order: Vec<usize> = (0..points.len()).collect();
    // -0 and 0 are the same position; adding 0 makes them one number.
    let key = |i: usize| points[i].map(|v| (v + 0.0).to_bits());
    order.sort_by_key(|&i| key(i));
    let (mut places, mut counts) = (Vec::new(), Vec::<usize>::new());
    let mut place_of = vec![0; points.len()];
    let mut last = None;
    for &i in &order {
        if last == Some(key(i)) {
            if let Some(count) = counts.last_mut() {
                *count += 1;
            }
        } else {
            places.push(points[i]);
            counts.push(1);
            last = Some(key(i));
        }
        place_of[i] = places.len() - 1;
    }
    // The tree's 32-bit indices suffice for the largest dataset. A single position has no distances.
    let tree: Option<ImmutableKdTree<f64, 3>> = match places.len() {
        1 => None,
        _ => ImmutableKdTree::new_from_slice(&places).ok(),
    };
    let mean_of_place = |(place, p): (usize, &[f64; 3])| {
        // Coincident points first.
        let mut squared = vec![0.0; (counts[place] - 1).min(neighbours)];
        if let (Some(tree), Some(wanted)) = (&tree, NonZero::new(neighbours + 1))
            && squared.len() < neighbours
        {
            let found = tree.query(p).nearest_n::<SquaredEuclidean<f64>>(wanted).execute();
            let others = found.iter().map(|item| item.item as usize).filter(|&other| other != place);
            squared.extend(others.flat_map(|other| {
                // Distances are summed here in a fixed order, independently of the tree's SIMD code.
                let q = places[other];
                let d = [q[0] - p[0], q[1] - p[1], q[2] - p[2]];
                let squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                std::iter::repeat_n(squared, counts[other].min(NEIGHBOURS))
            }));
            squared.sort_by(f64::total_cmp);
        }
        squared.iter().take(neighbours).sum::<f64>() / neighbours as f64
    };
    let means: Vec<f64> = places.iter().enumerate().map(mean_of_place).collect();
    place_of.into_iter().map(|place| means[place]).collect()
}
