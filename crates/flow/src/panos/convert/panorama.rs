//! Reads one frame as a panorama, for previews.

use std::path::Path;
use std::time::Duration;

use gausset_compute::{Pool, VectorLevel, level};
use gausset_pano::convert::{self, ConvertError, Writing};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::load::Limits;
use gausset_pano::plane::Frame;
use gausset_pano::projection::{Equirect, Projection};

use crate::panos::colour::{self, ColourChoice};
use crate::panos::moments::{Moments, Trouble};
use crate::panos::source::{FrameChoice, Source};
use crate::tool::SILENCE;
use crate::{Failure, Host};

/// The first frame of images or of a video at full size, converted to a panorama if needed.
///
/// # Errors
/// Unusable footage; the job was asked to stop.
pub fn panorama_of(
    input: &Path,
    choice: &FrameChoice,
    colours: &ColourChoice,
    pool: &Pool,
    host: &Host<'_>,
) -> Result<(Frame, Equirect), Failure> {
    if colours.equalise == Some(Equalise::Frames) {
        return Err(Failure::usage("⟨equalise = frames⟩: applies to split and run only; leave it out"));
    }
    let source = Source::open(input, choice, Limits::default(), Duration::from_secs(SILENCE), host)?;
    let level = level(VectorLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
    let none = || Failure::new("frames", format!("{}: frames: none found", input.display()));
    let read = Moments::new(&source, level, host.stop()).read(0);
    let mut moment = read.map_err(|trouble| match trouble {
        Trouble::Frame(what) | Trouble::End(Some(what)) => {
            Failure::new(if source.film.is_some() { "video" } else { "frames" }, what)
        }
        Trouble::End(None) => none(),
        Trouble::Stopped => Failure::stopped(),
        Trouble::Fatal(failure) => failure,
    })?;
    let (colouring, equalise) = (colours.colouring()?, colours.equalise(&source)?);
    colour::apply(&colouring, equalise, &moment.projection, &mut moment.frame, None);
    if let Projection::Equirect(equirect) = moment.projection {
        return Ok((moment.frame, equirect));
    }
    let width = source.around.next_multiple_of(4);
    let writing = Writing { format: Format::Png, level, pool, stop: host.stop(), segments: &[] };
    let frame = convert::panorama(&moment, width, writing).map_err(|e| match e {
        ConvertError::Stopped => Failure::stopped(),
        other => Failure::new("frames", other),
    })?;
    Ok((frame, Equirect::whole(width, width / 2)))
}
