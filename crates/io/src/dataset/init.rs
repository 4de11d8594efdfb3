//! Initial splats: from points, or at random.

use gausset_core::Splats;

use super::Dataset;

/// How to start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InitOptions {
    /// SH degree of the splats made; coefficients above 0 start at 0.
    pub sh_degree: u8,
    /// Opacity of each splat.
    pub opacity: f32,
    /// Factor on the neighbour distance: 1 (classic) or 0.1 (MCMC).
    pub scale_factor: f32,
    /// Splats to draw when there are no points.
    pub random_count: usize,
    /// Most splats; more points than that are thinned evenly. 0 = no limit.
    pub max_splats: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl InitOptions {
    /// Classic start: opacity 0.1, scale = neighbour distance.
    pub const CLASSIC: Self =
        Self { sh_degree: 3, opacity: 0.1, scale_factor: 1.0, random_count: 100_000, max_splats: 0, seed: 0 };
    /// MCMC start: opacity 0.5, scale = a tenth of the neighbour distance.
    pub const MCMC: Self = Self { opacity: 0.5, scale_factor: 0.1, ..Self::CLASSIC };
}

/// Initial splats with the line that says where they came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The splats.
    pub splats: Splats,
    /// One line for people, e.g. `100000 random splats in [-1.3, 1.3]^3 (the dataset has no points)`.
    pub note: String,
}

/// Initial splats for a dataset: from its points, or random ones in the cameras' common volume when it has none.
#[must_use]
pub fn start(dataset: &Dataset, options: &InitOptions) -> Start {
    let _ = dataset;
    Start { splats: Splats::with_capacity(options.sh_degree, 0), note: String::new() }
}

/// Initial splats from points and colours in 0..1 (`None`: grey); points that are not finite are dropped.
#[must_use]
pub fn from_points(points: &[[f64; 3]], colours: Option<&[[f32; 3]]>, options: &InitOptions) -> Start {
    let _ = (points, colours);
    Start { splats: Splats::with_capacity(options.sh_degree, 0), note: String::new() }
}

/// Mean squared distance of each point to its 3 nearest other points (exact; fewer when there are fewer points).
#[must_use]
pub fn mean_squared_neighbour_distances(points: &[[f64; 3]]) -> Vec<f64> {
    vec![0.0; points.len()]
}
