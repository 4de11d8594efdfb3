//! Thumbnails of an evaluation as JPEG: photograph, render and error side by side.

use std::path::Path;

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
    // A view without a PSNR is identical to its photograph.
    let psnr = |record: &EvalRecord| record.psnr.unwrap_or(f64::INFINITY);
    order.sort_by(|(i, a), (k, b)| psnr(a).total_cmp(&psnr(b)).then(i.cmp(k)));
    order
}

/// The worst and the best view with their scores; those without an image are left out.
pub(super) fn extremes(run: &Path, report: &EvalReport) -> Vec<HeroImage> {
    let mut order = worst_first(report);
    // Without valid pixels there is no SSIM.
    order.retain(|(_, record)| record.ssim.is_some());
    let mut ends = vec![("Worst", order.first())];
    ends.extend((order.len() > 1).then(|| ("Best", order.last())));
    let hero = |(word, end): (&str, Option<&(usize, &EvalRecord)>)| {
        let &(position, record) = end?;
        let path = eval_folder(run).join(contact_sheet::file_name(position, &record.name));
        let psnr = record.psnr.map_or("equal".to_owned(), |psnr| format!("{psnr:.2} dB"));
        Some(HeroImage {
            title: format!("{word} view: {}", record.name),
            scores: format!("{psnr}, SSIM {}", number(record.ssim, 4)),
            jpeg: thumbnail(&path, HERO_HEIGHT)?,
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
        let path = eval_folder(run).join(contact_sheet::file_name(position, &record.name));
        let jpeg = if room > 0 { thumbnail(&path, height as u32) } else { None };
        let jpeg = jpeg.filter(|(jpeg, _)| jpeg.len() <= room);
        room = jpeg.as_ref().map_or(room, |(jpeg, _)| room - jpeg.len());
        ImageRow { name: record.name.clone(), cells: cells(record), jpeg }
    };
    order.into_iter().map(row).collect()
}

fn cells(record: &EvalRecord) -> Vec<String> {
    let scores = &record.scores;
    vec![
        record.psnr.map_or("equal".to_owned(), |v| format!("{v:.2}")),
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
