//! Arguments that define the views, shared by the sub-commands of `pano`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::panos::{LensArrangement, ViewOptions};
use gausset_pano::layout::Layout;

/// A parser for layout names.
pub(crate) fn layout_parser() -> impl TypedValueParser<Value = Layout> {
    // The name is always that of a layout here.
    PossibleValuesParser::new(Layout::ALL.map(Layout::name))
        .map(|name| Layout::from_name(&name).unwrap_or(Layout::Ring8))
}

/// Arguments that define the views.
#[derive(Clone, Debug, Args)]
pub(crate) struct ViewLayoutArgs {
    /// View layout: ring8|ring8-110|ring12-110|ring4|dome16|dense17|cube6|cube8|cube8-full|colmap12|ring8-caps.
    #[arg(
        long, value_name = "LAYOUT", default_value = "ring8", hide_possible_values = true, help_heading = "Views",
        value_parser = layout_parser()
    )]
    pub(crate) layout: Layout,
    /// JSON file of custom views: a list of {yaw, pitch, roll, hfov, width, height}.
    #[arg(long, value_name = "FILE", conflicts_with = "layout", help_heading = "Views")]
    pub(crate) views: Option<PathBuf>,
    /// Side of a view, px [default: a quarter of the panorama's width at 90 degrees].
    #[arg(long, value_name = "PX", help_heading = "Views", value_parser = clap::value_parser!(u32).range(16..=16_384))]
    pub(crate) size: Option<u32>,
    /// Horizontal field of view, degrees [default: the layout's].
    #[arg(long, value_name = "DEG", help_heading = "Views")]
    pub(crate) fov: Option<f64>,
    /// Rotation of all views to the right, degrees.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, help_heading = "Views")]
    pub(crate) rotate: f64,
    /// Add the fewest views that make the layout cover the full sphere, and list them.
    #[arg(long, help_heading = "Views")]
    pub(crate) full_sphere: bool,
}

impl ViewLayoutArgs {
    pub(crate) fn options(&self) -> ViewOptions {
        ViewOptions {
            layout: self.layout,
            views: self.views.clone(),
            size: self.size,
            fov: self.fov,
            rotate: self.rotate,
            full_sphere: self.full_sphere,
            lenses: LensArrangement::Together,
        }
    }
}

/// Argument that relates views to the two lenses of a frame.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LensModeArgs {
    /// With --lens: views across both lenses (together), or views within one lens and a pose per lens, so that no view
    /// crosses the seam (separate).
    #[arg(
        long, value_name = "HOW", default_value = "together", hide_possible_values = true, help_heading = "Views",
        value_parser = PossibleValuesParser::new(LensArrangement::ALL.map(LensArrangement::name)).map(|name| {
            LensArrangement::ALL.into_iter().find(|lenses| lenses.name() == name).unwrap_or_default()
        })
    )]
    pub(crate) lenses: LensArrangement,
}
