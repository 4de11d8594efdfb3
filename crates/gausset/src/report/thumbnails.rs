//! Thumbnails of an evaluation as JPEG: photograph, render and error side by side.

use std::path::{Path, PathBuf};

use gausset_io::image::{DecodedImage, area_filter, decode};
use gausset_io::input;
use gausset_io::run_folder::eval_folder;
use gausset_page::report::{HeroImage, ImageRow};
use gausset_train::{EvalRecord, EvalReport, contact_sheet};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// Total size limit of all thumbnails in bytes.
const MAX_TOTAL_BYTES: usize = 3 << 20;
/// Largest and smallest height of a thumbnail in pixels.
const HEIGHT_RANGE: [f64; 2] = [170.0, 80.0];
/// Height of the pictures at the start of the page in pixels.
const HERO_HEIGHT: u32 = 300;
/// Number of views up to which thumbnails have the largest height; above it, their area shrinks with the number.
const FULL_HEIGHT_COUNT: f64 = 60.0;
const QUALITY: u8 = 70;
/// Size limit of a comparison image that is read.
const MAX_IMAGE_BYTES: u64 = 1 << 30;

/// Column titles.
pub(super) const COLUMNS: [&str; 6] = [
    "view",
    "PSNR, dB",
    "SSIM",
    "PSNR, colour-corrected, dB",
    "PSNR, pixels seen by 3 views, dB",
    "valid pixels",
];

/// Positions and records of the views, the worst first.
fn worst_first(report: &EvalReport) -> Vec<(usize, &EvalRecord)> {
    let mut order: Vec<(usize, &EvalRecord)> = report.per_image.iter().enumerate().collect();
    // A view without a PSNR is identical to its photograph, or has no valid pixel.
    let psnr = |record: &EvalRecord| record.psnr.unwrap_or(f64::INFINITY);
    order.sort_by(|(i, a), (k, b)| psnr(a).total_cmp(&psnr(b)).then(i.cmp(k)));
    order
}

/// The worst and the best view with their scores; those without an image are left out.
pub(super) fn extremes(run: &Path, report: &EvalReport) -> Vec<HeroImage> {
    let mut order = worst_first(report);
    order.retain(|(_, record)| record.is_scored());
    let mut ends = vec![("Worst", order.first())];
    ends.extend((order.len() > 1).then(|| ("Best", order.last())));
    let hero = |(word, end): (&str, Option<&(usize, &EvalRecord)>)| {
        let &(position, record) = end?;
        let psnr = record.psnr.map_or("equal".to_owned(), |psnr| format!("{psnr:.2} dB"));
        Some(HeroImage {
            title: format!("{word} view: {}", record.name),
            scores: format!("{psnr}, SSIM {}", number(record.ssim, 4)),
            jpeg: thumbnail(&picture(run, report, position)?, HERO_HEIGHT)?,
        })
    };
    ends.into_iter().filter_map(hero).collect()
}

/// Table rows of an evaluation, the worst first.
pub(super) fn rows(run: &Path, report: &EvalReport) -> Vec<ImageRow> {
    let order = worst_first(report);
    let height = (HEIGHT_RANGE[0] * (FULL_HEIGHT_COUNT / order.len().max(1) as f64).sqrt())
        .clamp(HEIGHT_RANGE[1], HEIGHT_RANGE[0]);
    let mut room = MAX_TOTAL_BYTES;
    let row = |(position, record): (usize, &EvalRecord)| {
        let path = picture(run, report, position).filter(|_| room > 0);
        let jpeg = path.and_then(|path| thumbnail(&path, height as u32));
        let jpeg = jpeg.filter(|(jpeg, _)| jpeg.len() <= room);
        room = jpeg.as_ref().map_or(room, |(jpeg, _)| room - jpeg.len());
        ImageRow { name: record.name.clone(), cells: cells(record), jpeg }
    };
    order.into_iter().map(row).collect()
}

/// The image of a record. Its number counts the views that were skipped as well.
fn picture(run: &Path, report: &EvalReport, position: usize) -> Option<PathBuf> {
    let (folder, name) = (eval_folder(run), &report.per_image[position].name);
    let numbers = position..=position + report.skipped.len();
    let mut paths = numbers.map(|number| folder.join(contact_sheet::file_name(number, name)));
    paths.find(|path| path.is_file())
}

fn cells(record: &EvalRecord) -> Vec<String> {
    let scores = &record.scores;
    vec![
        match record.psnr {
            None if record.is_scored() => "equal".to_owned(),
            psnr => number(psnr, 2),
        },
        number(record.ssim, 4),
        number(scores.psnr_colour_corrected, 2),
        number(scores.psnr_covisible, 2),
        format!("{:.0} %", 100.0 * record.valid_share),
    ]
}

/// A number with this many decimals, or a dash.
pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}

/// Reads an image and reduces it to at most this height. Returns the JPEG and its size, or `None` if it cannot be read.
fn thumbnail(path: &Path, height: u32) -> Option<(Vec<u8>, [u32; 2])> {
    let picture = decode(&input::read(path, MAX_IMAGE_BYTES).ok()?).ok()?;
    let width = (u64::from(picture.width) * u64::from(height)).div_ceil(u64::from(picture.height.max(1)));
    let picture = if picture.height > height && width > 0 {
        area_filter::downscale(DecodedImage { alpha: None, ..picture }, u32::try_from(width).ok()?, height)
    } else {
        picture
    };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, QUALITY);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    let [width, height] = [picture.width, picture.height].map(u16::try_from);
    encoder.encode(&picture.rgb, width.ok()?, height.ok()?, ColorType::Rgb).ok()?;
    Some((bytes, [picture.width, picture.height]))
}

#[cfg(test)]
mod tests {
    use gausset_io::image::encode::png_rgb8;

    use super::*;

    #[test]
    fn a_view_that_was_skipped_takes_no_image_from_later_ones_and_one_without_pixels_has_dashes() {
        let run = tempfile::tempdir().unwrap();
        std::fs::create_dir(eval_folder(run.path())).unwrap();
        // The second of four views cannot be read.
        for name in ["0000_a.png", "0002_c.png", "0003_d.png"] {
            let png = png_rgb8(&gausset_core::RgbImage8::new(8, 8)).unwrap();
            std::fs::write(eval_folder(run.path()).join(name), png).unwrap();
        }
        let report = serde_json::json!({
            "split": "test", "images": 3, "psnr": 20.0, "valid_share": 0.5,
            "skipped": [{"name": "b.jpg", "reason": "damaged"}],
            "per_image": [
                {"name": "a.jpg", "ssim": 1.0},
                {"name": "c.jpg", "valid_share": 0.0},
                {"name": "d.jpg", "psnr": 20.0, "ssim": 0.5, "valid_share": 0.5},
            ],
        });
        let report: EvalReport = serde_json::from_value(report).unwrap();
        let rows = rows(run.path(), &report);
        let seen = |row: &ImageRow| (row.name.clone(), row.cells[0].clone(), row.jpeg.is_some());
        let expected = [("d.jpg", "20.00"), ("a.jpg", "equal"), ("c.jpg", "–")];
        let expected = expected.map(|(name, psnr)| (name.to_owned(), psnr.to_owned(), true));
        assert_eq!(rows.iter().map(seen).collect::<Vec<_>>(), expected);
        let ends: Vec<String> = extremes(run.path(), &report).into_iter().map(|image| image.title).collect();
        assert_eq!(ends, ["Worst view: d.jpg", "Best view: a.jpg"]);
    }
}
