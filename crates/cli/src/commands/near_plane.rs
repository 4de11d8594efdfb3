//! Arguments that render with settings other than those of the training.

use clap::Args;
use gausset_core::constants::MIN_NEAR_PLANE;

/// Render settings that differ from those of the training.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct NearPlaneArgs {
    /// Near plane: minimum distance of drawn splats from the camera, scene units [default: as trained, or 0.01].
    #[arg(long, value_name = "DISTANCE", value_parser = parse_near_plane)]
    pub(crate) near_plane: Option<f64>,
}

fn parse_near_plane(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|v| (*v as f32).is_finite() && *v >= MIN_NEAR_PLANE);
    found.ok_or_else(|| format!("expected {MIN_NEAR_PLANE} or more scene units, found `{text}`"))
}
