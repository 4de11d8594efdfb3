//! The table of all options of footage.
//!
//! A row consists of `/// help`, name, type and properties ([`super::row::OptionRow`]); a field without properties is a
//! group of options. To add an option, add its row here and use its value; see CONTRIBUTING.md, "An option of footage".

use std::ffi::OsStr;
use std::path::PathBuf;

use gausset_pano::cube::Face;
use gausset_pano::equalise::Equalise;
use gausset_pano::layout::Layout;
use gausset_pano::look::ColourSettings;
use gausset_pano::selection::SelectBy;
use serde_json::Value;

use super::row::{
    GroupField, NestedGroup, OptionGroup, OptionInfo, OptionRow, field, flag, option, option_groups, unlisted,
};
use super::value::ValueError;
use super::words::{LensWords, StereoLayout};
use crate::mask_engine::EngineKind;
use crate::panos::{LensArrangement, SourceProjection, TrackOptions};

const POSITIVE: &str = "a number above 0, at most 1000000";

fn is_positive(value: &Option<f64>) -> bool {
    value.is_some_and(|v| v.is_finite() && v > 0.0 && v <= 1e6)
}

option_groups! {
    /// Options that select and interpret frames.
    FrameOptions under "Frames" {
        /// Use every N-th frame.
        every: u32 = option("every", "N", 1).within(1, u32::MAX).rare().always_recorded();
        /// Criterion of the frame selection.
        select: SelectionOptions;
        /// Video: frames per second, selected by time.
        fps: Option<f64> = option("fps", "FPS", None).range(POSITIVE, is_positive);
        /// Video: start time in seconds.
        start: f64 = option("start", "S", 0.0).always_recorded();
        /// Video: end time in seconds.
        end: Option<f64> = option("end", "S", None).range(POSITIVE, is_positive);
        /// Video: use the sharpest of N neighbouring frames.
        sharpest_of: u32 = option("sharpest-of", "N", 1).within(1, 1000).rare().always_recorded();
        /// Stereo layout of the frames: tb (top-bottom; the upper eye is used).
        stereo: Option<StereoLayout> = option("stereo", "HOW", None).rare();
        /// Lens file for dual-fisheye frames (docs/reference/pano.md).
        lens: Option<PathBuf> = option("lens", "FILE", None).rare();
        /// With --lens: words in which the file names of both lenses differ [default: GPFR GPBK, GF GB, _front _back, _0
        /// _1].
        pair: Option<LensWords> = option("pair", "A B", None).needs("lens").allow_hyphen().rare();
        /// Maximum number of frames, spaced by parallax for a video and evenly for a folder.
        max_frames: Option<u32> = option("max-frames", "N", None).within(1, u32::MAX);
        /// Projection of the frames.
        shape: ProjectionOptions;
        /// Video: GPS track, for motion that the images do not show.
        track: Option<TrackOptions>;
    }

    /// Criterion of the frame selection, as given by the user.
    SelectionOptions under "Frames" {
        /// Video: frame selection by space (equal parallax), time or all [default: space, with --fps time].
        select: Option<SelectBy> = option("select", "HOW", None).help_lists_words();
        /// Video: parallax between selected frames, degrees [default: 4].
        step: Option<f64> = option("step", "DEG", None)
            .range("0.1..90 degrees", |v| v.is_some_and(|v| (0.1..=90.0).contains(&v))).rare();
    }

    /// Options about the projection of a source; the rest is derived from the image size.
    ProjectionOptions under "Frames" {
        /// Projection of the input: equirect|cross|strip|faces [default: by aspect ratio].
        from: Option<SourceProjection> = option("from", "SHAPE", None).help_lists_words().rare();
        /// Strip: order of its faces, row by row; r, l, u, d, f, b = right, left, up, down, front, back [default:
        /// rludfb].
        faces: Option<[Face; 6]> = option("from-faces", "ORDER", None).rare();
        /// Strip: clockwise quarter turns of each face [default: 000000].
        turns: Option<[u8; 6]> = option("from-turns", "TURNS", None).rare();
    }

    /// Layout and size of the views.
    ViewOptions under "Views" {
        /// View layout: ring8|ring8-110|ring12-110|ring4|dome16|dense17|cube6|cube8|cube8-full|colmap12|ring8-caps.
        layout: Layout = option("layout", "LAYOUT", Layout::Ring8).help_lists_words().common();
        /// JSON file of custom views: a list of {yaw, pitch, roll, hfov, width, height}.
        views: Option<PathBuf> = option("views", "FILE", None).conflicts(&["layout"]);
        /// Side of a view, px [default: a quarter of the panorama's width at 90 degrees].
        size: Option<u32> = option("size", "PX", None).within(16, 16_384).common();
        /// Horizontal field of view, degrees [default: the layout's].
        fov: Option<f64> = option("fov", "DEG", None);
        /// Rotation of all views to the right, degrees.
        rotate: f64 = option("rotate", "DEG", 0.0);
        /// Add the fewest views that make the layout cover the full sphere, and list them.
        full_sphere: bool = flag("full-sphere");
        /// Arrangement of the views relative to the lenses of dual-lens frames ([`LensViewOptions`]).
        lenses: LensArrangement = unlisted(LensArrangement::Together);
    }

    /// Views for the training of `pano run`.
    TrainViewOptions under "Views" {
        /// Layout of the training views.
        layout: Layout = option("train-layout", "LAYOUT", Layout::Cube6).help_lists_words().always_recorded();
        /// Arrangement relative to the lenses of dual-lens frames, for alignment and training.
        lenses: LensViewOptions;
        /// Side of a training view, px [default: a quarter of the panorama's width].
        size: Option<u32> = option("train-size", "PX", None).within(16, 16_384);
    }

    /// Arrangement of views relative to the lenses of dual-lens frames.
    LensViewOptions under "Views" {
        /// With --lens: views across both lenses (together), or views within one lens and a pose per lens, so that no
        /// view crosses the seam (separate).
        lenses: LensArrangement = option("lenses", "HOW", LensArrangement::Together).help_lists_words().rare();
    }

    /// Colour options.
    ColourOptions under "Colours" {
        /// Colour adjustments KEY=VALUE,...: exposure (stops), and from -100 to 100 warmth, tint, brightness, contrast,
        /// highlights, shadows, black, saturation, vibrance.
        look: ColourSettings = option("look", "SETTINGS", ColourSettings::default()).allow_hyphen().rare();
        /// Colour lookup table (.cube), applied after --look.
        lut: Option<PathBuf> = option("lut", "FILE", None).rare();
        /// Equalise exposure and white balance: off, lenses (the two of a frame) or frames [default: lenses, if there
        /// are two].
        equalise: Option<Equalise> = option("equalise", "WHAT", None).help_lists_words().rare();
    }

    /// Masks of frames: given, or to create before frames are cut.
    FrameMaskOptions under "Views" {
        /// Mask everything within this angle of the nadir, degrees (tripod, operator).
        crop_bottom: f64 = option("crop-bottom", "DEG", 0.0).always_recorded();
        /// Folder with a mask per frame (black = remove) [default: INPUT/masks].
        masks: Option<PathBuf> = option("masks", "DIR", None);
        /// Command that writes a mask per frame; {frame} is replaced by the input image and {mask} by the PNG to write
        /// (black = remove).
        mask_command: Option<String> = option("mask-command", "COMMAND", None).conflicts(&["masks"]).rare();
        /// Masks to create.
        removal: MaskingOptions;
    }

    /// What to detect in panoramas and mask in their views.
    MaskingOptions under "" {
        /// Segmentation model (.onnx) for masking people and what they carry (docs/reference/masks.md).
        model: Option<PathBuf> = option("mask-model", "FILE", None).conflicts(&["masks", "mask-command"]).common();
        /// Mask static foreground: what keeps its position in all panoramas of a moving camera (operator, tripod).
        still_patch: bool = flag("still-patch").conflicts(&["masks", "mask-command"]);
        /// Also mask the shadow of static foreground.
        shadow: bool = flag("shadow").needs("still-patch").rare();
        /// With a model: number of frames before and after that influence a frame's mask, 0 to 5 [default: 1 for
        /// videos, 0 for images].
        temporal: Option<u32> = option("temporal", "N", None).within(0, 5).needs("mask-model").rare();
        /// Inference engine of the model.
        engine: MaskEngine;
    }

    /// An inference engine and the location of its library.
    MaskEngine under "" {
        /// Inference engine of the model: rten (built in) or onnxruntime (needs its shared library).
        kind: EngineKind = option("mask-engine", "ENGINE", EngineKind::Rten).help_lists_words().rare();
        /// Shared library of ONNX Runtime [default: $ORT_DYLIB_PATH, then the Python package onnxruntime of
        /// $GAUSSET_PYTHON or of python3 in PATH].
        library: Option<PathBuf> = option("onnx-library", "FILE", None).rare().not_recorded();
        /// Python that has the package onnxruntime; `None` = `$GAUSSET_PYTHON`, then python3 in PATH.
        python: Option<PathBuf> = unlisted(None);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The record of a group after setting options from text.
    fn record<G: OptionGroup>(given: &[(&str, &str)]) -> Value {
        let mut group = G::default();
        for (key, text) in given {
            assert_eq!(group.set(key, OsStr::new(text)), Some(Ok(())), "{key}");
        }
        Value::Object(group.record().into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    #[test]
    fn records_of_earlier_versions_are_still_recognised() {
        assert_eq!(
            record::<FrameOptions>(&[]),
            json!({
                "every": 1, "select": null, "step": null, "fps": null, "start": 0.0, "end": null,
                "sharpest-of": 1, "stereo": null, "lens": null, "pair": null, "max-frames": null,
                "from": null, "from-faces": null, "from-turns": null,
            })
        );
        let given = [
            ("every", "2"),
            ("select", "space"),
            ("step", "6"),
            ("fps", "2.5"),
            ("start", "1"),
            ("end", "9"),
            ("sharpest-of", "3"),
            ("stereo", "tb"),
            ("max-frames", "7"),
            ("from", "strip"),
            ("from-faces", "lfrbud"),
            ("from-turns", "012300"),
        ];
        assert_eq!(
            record::<FrameOptions>(&given),
            json!({
                "every": 2, "select": "space", "step": 6.0, "fps": 2.5, "start": 1.0, "end": 9.0,
                "sharpest-of": 3, "stereo": "tb", "lens": null, "pair": null, "max-frames": 7,
                "from": "strip", "from-faces": "left front right back up down", "from-turns": "[0, 1, 2, 3, 0, 0]",
            })
        );
        assert_eq!(
            record::<TrainViewOptions>(&[]),
            json!({"train-layout": "cube6", "train-size": null, "lenses": null})
        );
        assert_eq!(
            record::<TrainViewOptions>(&[
                ("train-layout", "cube8"),
                ("train-size", "640"),
                ("lenses", "separate")
            ]),
            json!({"train-layout": "cube8", "train-size": 640, "lenses": "separate"})
        );
        assert_eq!(record::<ColourOptions>(&[]), json!({"look": null, "lut": null, "equalise": null}));
        assert_eq!(record::<ColourOptions>(&[("equalise", "off")])["equalise"], "off");
        assert_eq!(
            record::<FrameMaskOptions>(&[]),
            json!({
                "crop-bottom": 0.0, "masks": null, "mask-command": null, "mask-model": null,
                "still-patch": null, "shadow": null, "temporal": null, "mask-engine": null,
            })
        );
        let given = [
            ("crop-bottom", "35"),
            ("mask-command", "a {frame}"),
            ("still-patch", "true"),
            ("shadow", "true"),
            ("temporal", "0"),
            ("mask-engine", "onnxruntime"),
            ("onnx-library", "lib.so"),
        ];
        assert_eq!(
            record::<FrameMaskOptions>(&given),
            json!({
                "crop-bottom": 35.0, "masks": null, "mask-command": "a {frame}", "mask-model": null,
                "still-patch": true, "shadow": true, "temporal": 0, "mask-engine": "onnxruntime",
            })
        );
    }

    #[test]
    fn every_default_is_a_value_that_its_option_accepts() {
        for option in all_options() {
            let default = option.default.clone().map_or(Ok(()), |text| (option.check)(&text));
            assert_eq!(default, Ok(()), "{option:?}");
            assert!(option.help.len() > 10 && !option.help.ends_with('.'), "{option:?}: {}", option.help);
        }
    }

    #[test]
    fn a_value_out_of_range_and_an_unknown_key_are_refused() {
        let mut options = FrameOptions::default();
        let refused = |text: &str| Some(Err(format!("expected 0.1..90 degrees, found `{text}`")));
        let mut set = |key: &str, text: &str| {
            options.set(key, OsStr::new(text)).map(|set| set.map_err(|error| error.to_string()))
        };
        assert_eq!(set("step", "100"), refused("100"));
        assert_eq!(set("step", "x"), refused("x"));
        assert_eq!(set("layout", "ring8"), None);
        assert_eq!(options, FrameOptions::default());
    }
}
