//! Memory check of a conversion: planes of a frame, memory of its decoder, output images. One frame is processed at a
//! time, and the threads share its rows.

use gausset_io::text;
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::frames::SourceFrame;
use gausset_pano::grade;
use gausset_pano::load;
use gausset_pano::projection::Projection;

use super::ConvertJob;

/// Memory needed for a frame, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConvertMemory {
    /// Decoding, planes and half-size planes.
    source: u64,
    /// One output image, from its planes to the encoded file.
    picture: u64,
    /// Colour tables.
    colours: u64,
    /// Width and height of the frame in pixels.
    size: [u64; 2],
}

/// Why a frame is not converted.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameMemoryError {
    /// It exceeds the memory budget; `advice` says what would fit.
    #[error(
        "{file}: memory: converting it takes {needed} (expected at most {budget}); raise ⟨max-memory⟩{advice}"
    )]
    TooLarge { file: String, needed: String, budget: String, advice: String },
    /// A file of it cannot be read.
    #[error(transparent)]
    File(#[from] load::LoadError),
}

/// Refuses a frame that exceeds the memory budget; the message says what would fit.
pub(super) fn check(job: &ConvertJob<'_>, frame: &SourceFrame) -> Result<(), FrameMemoryError> {
    let demand = memory_need(job, frame)?;
    let ConvertMemory { source, picture, colours, .. } = demand;
    let (all, budget) = (source + picture + colours, job.budget);
    if all <= budget {
        return Ok(());
    }
    let file = frame.files.first().map(|f| f.display().to_string()).unwrap_or_default();
    let advice = fitting_size_advice(&demand, job.options.size, budget.saturating_sub(colours));
    let (needed, budget) = (text::format_bytes(all), text::format_bytes(budget));
    Err(FrameMemoryError::TooLarge { file, needed, budget, advice })
}

/// Advice besides more memory, with `budget` bytes for frame and output.
fn fitting_size_advice(demand: &ConvertMemory, size: Option<u32>, budget: u64) -> String {
    let &ConvertMemory { source, picture, size: [width, height], .. } = demand;
    // The output depends on `size` if given, otherwise on the size of the frame.
    if let (Some(size), Some(left)) = (size, budget.checked_sub(source)) {
        let fits = (f64::from(size) * (left as f64 / picture as f64).sqrt()) as u32 / 16 * 16;
        return if fits >= 16 { format!(", or take ⟨size = {fits}⟩") } else { String::new() };
    }
    let (of_frame, fixed) = if size.is_some() { (source, picture) } else { (source + picture, 0) };
    let share = budget.saturating_sub(fixed) as f64 / of_frame as f64;
    let fits = (height as f64 * share.sqrt()) as u64 / 16 * 16;
    match fits {
        0 => String::new(),
        _ => format!(", or make it smaller: {}x{fits} px of this kind fit", fits * width / height),
    }
}

fn memory_need(job: &ConvertJob<'_>, frame: &SourceFrame) -> Result<ConvertMemory, FrameMemoryError> {
    let source = job.source;
    let (bytes, size) = match &source.film {
        Some(film) => {
            let [width, height] = film.video.size.map(u64::from);
            let pixels = width * height;
            // A cube map is in memory twice for a moment: as stored, and as faces with their margins.
            let folded = if film.cube.is_some() { 7 * pixels / 4 } else { 0 };
            // To pick the sharpest frame, the best one so far is kept in addition to the current one.
            let pipe = if film.video.choice.sharpest_of == 1 { 3 * pixels / 2 } else { 13 * pixels / 4 };
            // Padded 4:2:0 planes and half-size planes.
            (pipe + 17 * pixels / 8 + folded, [width, height])
        }
        None => of_files(job, frame)?,
    };
    let pixels = job.pictures.iter().map(|(_, shown)| shown.size().map(u64::from).iter().product::<u64>());
    // Planes and encoded file; for PNG, the pixels and the growing packed data, which is twice in memory.
    let each = if job.options.format == Format::Png { 9 } else { 3 };
    let picture = each * pixels.max().unwrap_or(0) + (1 << 20);
    let colours = match (job.colours.equalise, job.colours.colouring.is_neutral()) {
        (Equalise::Lenses, _) if job.colours.colouring.lut.is_none() => 2 * grade::MAX_FRAME_BYTES,
        (Equalise::Lenses, _) => 2 * grade::MAX_BYTES,
        (_, false) => grade::MAX_BYTES,
        (_, true) => 0,
    };
    Ok(ConvertMemory { source: bytes, picture, colours, size })
}

/// Memory for reading image files to planes, and the size of the frame.
fn of_files(job: &ConvertJob<'_>, frame: &SourceFrame) -> Result<(u64, [u64; 2]), FrameMemoryError> {
    let source = job.source;
    let (mut bytes, mut planes, mut pixels) = (0, 0, 0);
    for file in &frame.files {
        let demand = load::estimate_memory(file, &source.limits)?;
        bytes += demand.peak_bytes;
        planes += demand.all_planes_bytes;
        pixels += demand.pixels;
    }
    if frame.files.len() > 1 {
        // The parts stay in memory together with the whole frame.
        bytes += planes;
    }
    if matches!(source.projection, Some(Projection::Cube(_))) {
        // So does the image together with its faces.
        bytes += planes + planes / 8;
    }
    let size = match &source.projection {
        Some(projection) => projection.source_image_size().map(u64::from),
        None => {
            let height = (pixels / 2).isqrt();
            [2 * height, height]
        }
    };
    Ok((bytes, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_fit_is_told_in_the_size_that_can_be_changed() {
        let demand = ConvertMemory { source: 600, picture: 300, colours: 0, size: [4000, 2000] };
        // A quarter of the bytes: half the width and height, of frame and output together.
        assert_eq!(
            fitting_size_advice(&demand, None, 225),
            ", or make it smaller: 1984x992 px of this kind fit"
        );
        // Only the output is too large: a quarter of it fits.
        assert_eq!(fitting_size_advice(&demand, Some(1024), 675), ", or take ⟨size = 512⟩");
        // With an output of this size, a quarter of the frame fits.
        assert_eq!(
            fitting_size_advice(&demand, Some(1024), 450),
            ", or make it smaller: 1984x992 px of this kind fit"
        );
        // Not even a small frame fits.
        assert_eq!(fitting_size_advice(&demand, Some(1024), 100), "");
    }
}
