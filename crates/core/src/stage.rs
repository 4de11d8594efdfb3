//! The names of the stages: used for files in `raster`, kernels, rows of the profiler and in the docs.

/// A stage of the pipeline.
///
/// ```
/// use gausset_core::Stage;
///
/// assert_eq!(Stage::BlendVjp.name(), "blend_vjp");
/// assert_eq!(Stage::ALL[3].description(), "project splats to the screen, evaluate their colour");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the documentation: see `Stage::about`")]
pub enum Stage {
    Decode,
    Stereo,
    Upload,
    Project,
    Sort,
    Tile,
    Blend,
    Loss,
    BlendVjp,
    ProjectVjp,
    Adam,
    ProjectVjpAdam,
    Density,
    Eval,
    Checkpoint,
}

impl Stage {
    /// Every stage in pipeline order.
    pub const ALL: [Self; 15] = [
        Self::Decode,
        Self::Stereo,
        Self::Upload,
        Self::Project,
        Self::Sort,
        Self::Tile,
        Self::Blend,
        Self::Loss,
        Self::BlendVjp,
        Self::ProjectVjp,
        Self::Adam,
        Self::ProjectVjpAdam,
        Self::Density,
        Self::Eval,
        Self::Checkpoint,
    ];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Stereo => "stereo",
            Self::Upload => "upload",
            Self::Project => "project",
            Self::Sort => "sort",
            Self::Tile => "tile",
            Self::Blend => "blend",
            Self::Loss => "loss",
            Self::BlendVjp => "blend_vjp",
            Self::ProjectVjp => "project_vjp",
            Self::Adam => "adam",
            Self::ProjectVjpAdam => "project_vjp+adam",
            Self::Density => "density",
            Self::Eval => "eval",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// One sentence on what the stage does.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Decode => "read and decode an image, undistort and downscale it",
            Self::Stereo => "depth maps of the images, dense points from them",
            Self::Upload => "upload a target image to the device",
            Self::Project => "project splats to the screen, evaluate their colour",
            Self::Sort => "order the visible splats by depth",
            Self::Tile => "list the splats of each tile in depth order",
            Self::Blend => "composite each pixel front to back",
            Self::Loss => "L1 + D-SSIM and its gradient with respect to the render",
            Self::BlendVjp => "gradients with respect to the screen splats",
            Self::ProjectVjp => "gradients with respect to the raw parameters",
            Self::Adam => "update the parameters",
            Self::ProjectVjpAdam => "gradients with respect to the raw parameters, fused with their update",
            Self::Density => "clone, split, prune or relocate splats",
            Self::Eval => "render and score held-out views",
            Self::Checkpoint => "save the state of the run",
        }
    }
}
