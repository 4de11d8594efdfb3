//! What became of each photograph of an alignment, for `align.json`, and why some have no pose.

use std::collections::HashMap;

use gausset_core::statistics::upper_median;
use gausset_io::dataset::colmap::NO_POINT;
use gausset_io::image::read_header;
use gausset_sfm::align::FrameFacts;
use gausset_sfm::model::{CheckedModel, FrameImages};
use gausset_sfm::{AlignmentTool, focal_of_metadata};
use serde::Serialize;

use super::alignment::LeftOut;
use super::images::ImageSet;
use crate::aligner::Aligner;

/// Fewer features say that a photograph is blurred or shows plain surfaces.
const FEW_FEATURES: usize = 200;
/// Photographs in a row without a pose, from which on one line names them all.
const ROW: usize = 3;
/// Largest number of names in a line, which a front end may shorten.
const NAMES: usize = 20;

/// What became of a photograph.
#[derive(Debug, Serialize)]
pub(super) struct PictureReport<'a> {
    name: &'a str,
    registered: bool,
    /// Why it has no pose.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Number of features, of photographs with which it was matched, and of those that share a verified match, if the
    /// aligner reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tried: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partners: Option<usize>,
    /// Number of landmarks that it observes, and the median of their mean reprojection errors, px.
    observations: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_px: Option<f64>,
}

/// A camera that photographs share.
#[derive(Debug, Serialize)]
pub(super) struct CameraReport {
    model: &'static str,
    width: u32,
    height: u32,
    photographs: usize,
    focal_px: f64,
    /// Focal length that the metadata state.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_focal_px: Option<f64>,
}

/// What an alignment made of the photographs; part of `align.json`.
#[derive(Debug, Serialize)]
pub(super) struct AlignmentReport<'a> {
    /// The aligner that made the model: `own` or `colmap`.
    aligner: &'static str,
    registered: usize,
    mean_track_length: f64,
    mean_reprojection_px: f64,
    cameras: Vec<CameraReport>,
    pictures: Vec<PictureReport<'a>>,
}

impl<'a> AlignmentReport<'a> {
    pub(super) fn new(
        tool: &AlignmentTool,
        pictures: &ImageSet,
        model: &CheckedModel,
        frames: &'a [FrameImages],
        facts: &[FrameFacts],
        left_out: &'a [LeftOut],
    ) -> Self {
        let errors: HashMap<u64, f64> = model.colmap.points.iter().map(|p| (p.id, p.error)).collect();
        let reasons: HashMap<&str, &str> =
            left_out.iter().map(|left_out| (&*left_out.name, &*left_out.reason)).collect();
        let picture = |(index, frame): (usize, &'a FrameImages)| {
            let image = model.image_of_frame.get(&index).map(|&at| &model.colmap.images[at]);
            let points = image.into_iter().flat_map(|image| &image.points);
            let seen: Vec<f64> = points
                .filter(|(_, id)| *id != NO_POINT)
                .filter_map(|(_, id)| errors.get(id).copied())
                .collect();
            PictureReport {
                name: &frame.name,
                registered: image.is_some(),
                reason: reasons.get(&*frame.name).copied(),
                features: facts.get(index).and_then(|facts| facts.features),
                tried: facts.get(index).and_then(|facts| facts.tried),
                partners: facts.get(index).and_then(|facts| Some(facts.partners.as_ref()?.len())),
                observations: seen.len(),
                error_px: upper_median(seen),
            }
        };
        let aligner = if *tool == AlignmentTool::BuiltIn { Aligner::Own } else { Aligner::Colmap };
        Self {
            aligner: aligner.name(),
            registered: model.image_of_frame.len(),
            mean_track_length: model.mean_track_length(),
            mean_reprojection_px: model.mean_reprojection_error(),
            cameras: cameras(pictures, model),
            pictures: frames.iter().enumerate().map(picture).collect(),
        }
    }
}

fn cameras(pictures: &ImageSet, model: &CheckedModel) -> Vec<CameraReport> {
    let report = |camera: &gausset_io::dataset::SourceCamera| {
        let mut images = model.colmap.images.iter().filter(|image| image.camera_id == camera.id).peekable();
        let first = images.peek().map(|image| pictures.file_with_metadata(&image.name));
        CameraReport {
            model: camera.model.name(),
            width: camera.width,
            height: camera.height,
            photographs: images.count(),
            focal_px: camera.params.first().copied().unwrap_or(0.0),
            metadata_focal_px: first.and_then(|path| focal_of_metadata(&read_header(&path).ok()?)),
        }
    };
    model.colmap.cameras.iter().map(report).collect()
}

/// Reason of a photograph that a list of pairs leaves out.
const IN_NO_PAIR: &str = "was matched with no other photograph: no pair has it";

/// Why a photograph has no pose.
pub(super) fn reason(index: usize, model: &CheckedModel, facts: &[FrameFacts]) -> String {
    let Some(facts) = facts.get(index) else { return "did not register".to_owned() };
    if let Some(features) = facts.features.filter(|&features| features < FEW_FEATURES) {
        return format!("has only {features} features: blurred, or plain surfaces");
    }
    match facts.partners.as_deref() {
        None => "did not register".to_owned(),
        Some([]) if facts.tried == Some(0) => IN_NO_PAIR.to_owned(),
        Some([]) => "shares no verified match with another photograph".to_owned(),
        Some(partners) if partners.iter().any(|at| model.image_of_frame.contains_key(at)) => {
            let count = partners.len();
            format!("matches {count} others, but does not fit the model: a repeated or moving subject")
        }
        Some(partners) => {
            format!(
                "matches only {} photographs that have no pose either: another part of the scene",
                partners.len()
            )
        }
    }
}

/// Lines about photographs without a pose: one for those in a row with the same reason, and one for [`NAMES`] others whose
/// reasons differ in a number at most.
pub(super) fn left_out_lines(left_out: &[LeftOut], frames: &[FrameImages]) -> Vec<String> {
    let index_of: HashMap<&str, usize> =
        frames.iter().enumerate().map(|(index, frame)| (&*frame.name, index)).collect();
    let follows = |a: &LeftOut, b: &LeftOut| {
        let next = index_of.get(&*a.name).map(|at| at + 1);
        next == index_of.get(&*b.name).copied() && a.reason == b.reason
    };
    let (mut lines, mut others): (_, Vec<(ReasonParts<'_>, Vec<&LeftOut>)>) = (Vec::new(), Vec::new());
    for row in left_out.chunk_by(follows) {
        match row {
            [first, .., last] if row.len() >= ROW => lines.push(format!(
                "{} to {}: {} photographs: each {}; {}",
                first.name,
                last.name,
                row.len(),
                first.reason,
                if first.reason == IN_NO_PAIR {
                    "add pairs with them to the list"
                } else {
                    "take more between them and the others"
                }
            )),
            _ => {
                for one in row {
                    let parts = ReasonParts::of(&one.reason);
                    match others.iter_mut().find(|(known, _)| known.is_like(&parts)) {
                        Some((_, list)) => list.push(one),
                        None => others.push((parts, vec![one])),
                    }
                }
            }
        }
    }
    let parts = others.iter().flat_map(|(parts, list)| list.chunks(NAMES).map(move |list| (parts, list)));
    lines.extend(parts.map(|(parts, list)| match list {
        [one] => format!("{}: photograph: {}", one.name, one.reason),
        _ => {
            let names: Vec<&str> = list.iter().map(|one| &*one.name).collect();
            let numbers: Vec<u64> =
                list.iter().filter_map(|one| ReasonParts::of(&one.reason).number).collect();
            let count = names.len();
            format!("{}: {count} photographs: each {}", names.join(", "), parts.with_numbers(&numbers))
        }
    }));
    lines
}

/// A reason, divided at its number.
struct ReasonParts<'a> {
    before: &'a str,
    number: Option<u64>,
    after: &'a str,
}

impl<'a> ReasonParts<'a> {
    fn of(reason: &'a str) -> Self {
        let is_digit = |c: char| c.is_ascii_digit();
        let (before, rest) = reason.split_at(reason.find(is_digit).unwrap_or(reason.len()));
        let (number, after) = rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len()));
        Self { before, number: number.parse().ok(), after }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.before, self.after) == (other.before, other.after)
    }

    /// The reason with the range of these numbers.
    fn with_numbers(&self, numbers: &[u64]) -> String {
        let range = match (numbers.iter().min(), numbers.iter().max()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
            (least, _) => least.map(u64::to_string).unwrap_or_default(),
        };
        format!("{}{range}{}", self.before, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photographs_that_fail_alike_are_one_line() {
        let frame = |k: usize| FrameImages { name: format!("{k}.jpg"), images: vec![format!("{k}.jpg")] };
        let frames: Vec<FrameImages> = (0..10).map(frame).collect();
        let left_out =
            |k: usize, reason: &str| LeftOut { name: format!("{k}.jpg"), reason: reason.to_owned() };
        let alone = "shares no verified match with another photograph";
        let found = [
            left_out(0, alone),
            left_out(2, alone),
            left_out(3, alone),
            left_out(4, alone),
            left_out(5, "has only 3 features: blurred, or plain surfaces"),
            left_out(9, "has only 57 features: blurred, or plain surfaces"),
            left_out(6, IN_NO_PAIR),
            left_out(7, IN_NO_PAIR),
            left_out(8, IN_NO_PAIR),
        ];
        let lines = left_out_lines(&found, &frames);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[0].starts_with("2.jpg to 4.jpg: 3 photographs: each shares"));
        assert!(lines[0].ends_with("take more between them and the others"));
        assert!(lines[1].ends_with("no pair has it; add pairs with them to the list"));
        assert!(lines[2].starts_with("0.jpg: photograph: shares"));
        assert_eq!(
            lines[3],
            "5.jpg, 9.jpg: 2 photographs: each has only 3 to 57 features: blurred, or plain surfaces"
        );
    }

    #[test]
    fn a_reason_says_what_a_photograph_lacks() {
        let mut model = CheckedModel { colmap: Default::default(), image_of_frame: Default::default() };
        model.image_of_frame.insert(0, 0);
        let facts = |features: usize, partners: &[usize]| FrameFacts {
            features: Some(features),
            tried: Some(5),
            partners: Some(partners.to_vec()),
        };
        let alone = FrameFacts { tried: Some(0), ..facts(900, &[]) };
        let all =
            [facts(4000, &[4]), facts(3, &[]), facts(900, &[]), facts(900, &[4]), facts(900, &[0, 3]), alone];
        let words = [
            "",
            "only 3 features",
            "no verified match",
            "another part of the scene",
            "does not fit",
            "no pair has it",
        ];
        for (index, word) in words.into_iter().enumerate().skip(1) {
            let line = reason(index, &model, &all);
            assert!(line.contains(word), "{line}");
        }
        assert_eq!(reason(1, &model, &[]), "did not register");
    }
}
