//! Pictures of an evaluation, small and as JPEG: photograph, render and error side by side.

use std::path::Path;

use gausset_io::image::{Picture, area, decode};
use gausset_io::input;
use gausset_io::run_folder::eval_folder;
use gausset_page::report::PictureRow;
use gausset_train::{EvalRecord, EvalReport, sheet};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// Bytes of all pictures together.
const ALL_BYTES: usize = 3 << 20;
/// Height of a picture where there are few, and at least, px.
const HEIGHT: [f64; 2] = [170.0, 80.0];
/// So many are few.
const FEW: f64 = 60.0;
const QUALITY: u8 = 70;
/// Largest picture of an evaluation that is read.
const MAX_PICTURE_BYTES: u64 = 1 << 30;

/// Names of the columns.
pub(super) const COLUMNS: [&str; 6] = [
    "picture",
    "PSNR, dB",
    "SSIM",
    "PSNR with colours fitted, dB",
    "PSNR seen by 3 views, dB",
    "pixels that count",
];

/// The rows of an evaluation, the worst first.
pub(super) fn rows(run: &Path, report: &EvalReport) -> Vec<PictureRow> {
    let mut order: Vec<(usize, &EvalRecord)> = report.per_image.iter().enumerate().collect();
    // A picture without a PSNR is equal to its truth.
    let psnr = |record: &EvalRecord| record.psnr.unwrap_or(f64::INFINITY);
    order.sort_by(|(i, a), (k, b)| psnr(a).total_cmp(&psnr(b)).then(i.cmp(k)));
    let height = (HEIGHT[0] * (FEW / order.len().max(1) as f64).sqrt()).clamp(HEIGHT[1], HEIGHT[0]);
    let mut room = ALL_BYTES;
    let row = |(position, record): (usize, &EvalRecord)| {
        let path = eval_folder(run).join(sheet::file_name(position, &record.name));
        let jpeg = if room > 0 { small(&path, height as u32) } else { None };
        let jpeg = jpeg.filter(|(jpeg, _)| jpeg.len() <= room);
        room = jpeg.as_ref().map_or(room, |(jpeg, _)| room - jpeg.len());
        PictureRow { name: record.name.clone(), cells: cells(record), jpeg }
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

/// A number with so many digits, or a dash.
pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}

/// A picture not higher than this, as JPEG with its size; `None` where there is none that can be read.
fn small(path: &Path, height: u32) -> Option<(Vec<u8>, [u32; 2])> {
    let picture = decode(&input::read(path, MAX_PICTURE_BYTES).ok()?).ok()?;
    let width = (u64::from(picture.width) * u64::from(height)).div_ceil(u64::from(picture.height.max(1)));
    let picture = if picture.height > height && width > 0 {
        area::downscale(Picture { alpha: None, ..picture }, u32::try_from(width).ok()?, height)
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
