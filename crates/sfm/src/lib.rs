//! Structure from motion: by the built-in aligner, or by COLMAP, which is found, run, watched and whose models are
//! checked.
//!
//! ```text
//! tool     pycolmap in a Python, or a `colmap` executable >= 3.13      (found, version checked)
//! align    features ─▶ rig ─▶ matching ─▶ mapping in a child process; a ladder of recipes; the best model
//! matches  keypoints and raw matches from other software; pair_list: which pairs are matched
//! built_in  the built-in aligner of panoramas: takes views, returns the same kind of model; photographs: of photographs
//! reconstruction  its algorithms: features, matches, relative poses, tracks, bundle adjustment
//! model    the model as checked poses per frame; metric scale from GPS; written with rigs and frames
//! compare  two sets of poses of the same images: similarity fit, errors of centres and rotations, drift
//! georeference  place, metres, north and up from the GPS positions of the pictures
//! speed    distance along a GPS track, integrated from its speed
//! track    a GPS track registered to the camera trajectory: clock offset and similarity
//! reprojection  reprojection errors of a model, in px and degrees
//! ```
//!
//! ```
//! use gausset_sfm::gps::fit_similarity;
//!
//! // A model in units of 10 m.
//! let centres = [[0.0; 3], [0.0, 0.0, 10.0], [0.0, -1.0, 20.0]];
//! let metres = centres.map(|centre| centre.map(|v| 10.0 * v));
//! let (fit, ..) = fit_similarity(&centres, &metres).unwrap();
//! assert!(fit.is_significant() && (fit.scale - 10.0).abs() < 1e-9);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod align;
mod align_error;
mod attempt;
mod built_in;
pub mod compare;
pub mod georeference;
pub mod gps;
mod ladder;
mod masks;
pub mod matches;
pub mod model;
pub mod pair_list;
mod photographs;
pub mod reconstruction;
pub mod reprojection;
mod resume;
pub mod speed;
pub mod tool;
pub mod track;
mod work_cache;

pub use align::{AlignError, AlignJob, AlignProgress, Alignment, align};
pub use attempt::Mapper;
pub use masks::masks_in;
pub use matches::ImportedMatches;
pub use pair_list::PairChoice;
pub use photographs::focal_of_metadata;
pub use reconstruction::PanoView;
pub use tool::{AlignmentTool, ToolError};
