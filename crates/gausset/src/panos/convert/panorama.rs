//! Reads one frame as a panorama, for previews.

use std::path::Path;
use std::time::Duration;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_pano::convert::{self, ConvertError, OutputContext};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::load::ImageLimits;
use gausset_pano::plane::Frame;
use gausset_pano::projection::{Equirect, Projection};

use crate::aligner::TOOL_TIMEOUT;
use crate::footage_options::{ColourOptions, FrameOptions};
use crate::panos::colour;
use crate::panos::frame_reader::{ReadFailure, SourceFrames};
use crate::panos::source::Footage;
use crate::{Failure, Host};

/// The first frame of images or of a video at full size, converted to a panorama if needed.
///
/// # Errors
/// Unusable footage; the job was asked to stop.
pub fn panorama_of(
    input: &Path,
    choice: &FrameOptions,
    colours: &ColourOptions,
    pool: &Pool,
    host: &mut Host<'_>,
) -> Result<(Frame, Equirect), Failure> {
    if colours.equalise == Some(Equalise::Frames) {
        return Err(Failure::usage("⟨equalise = frames⟩: applies to split and run only; leave it out"));
    }
    let source =
        Footage::open(input, choice, ImageLimits::default(), Duration::from_secs(TOOL_TIMEOUT), host)?;
    let level = dispatch_level(SimdLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
    let none = || Failure::new("frames", format!("{}: frames: none found", input.display()));
    let read = SourceFrames::new(&source, level, host.stop()).read(0);
    let mut moment = read.map_err(|trouble| match trouble {
        ReadFailure::Frame(what) => Failure::new("frames", what),
        ReadFailure::End => none(),
        ReadFailure::Broken(error) => error.into(),
        ReadFailure::Stopped => Failure::stopped(),
        ReadFailure::Fatal(failure) => failure,
    })?;
    let (colouring, equalise) = (colours.resolve()?, colours.equalise(&source)?);
    colour::apply(&colouring, equalise, &moment.projection, &mut moment.frame, None);
    if let Projection::Equirect(equirect) = moment.projection {
        return Ok((moment.frame, equirect));
    }
    let width = source.panorama_width.next_multiple_of(4);
    let writing = OutputContext { format: Format::Png, level, pool, stop: host.stop(), segments: &[] };
    let frame = convert::to_panorama(&moment, width, writing).map_err(|e| match e {
        ConvertError::Stopped => Failure::stopped(),
        other => Failure::new("frames", other),
    })?;
    Ok((frame, Equirect::whole(width, width / 2)))
}
