//! Networks without trained weights and with known outputs, from their bytes to detections.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_segment::{
    ClassSelection, Detection, InferenceEngine, ModelError, RgbImage, RunLimits, Segmenter,
};
use gausset_testkit::onnx::{Attribute, TestNetwork, Weights};
use tempfile::TempDir;

static NEVER: AtomicBool = AtomicBool::new(false);

fn patient() -> RunLimits<'static> {
    RunLimits { stop: &NEVER, limit: Duration::from_secs(60) }
}

/// A folder with `model.onnx`, and `model.toml` if there is a description.
fn folder(net: &TestNetwork, description: Option<&str>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, net.bytes()).unwrap();
    if let Some(text) = description {
        std::fs::write(folder.path().join("model.toml"), text).unwrap();
    }
    (folder, path)
}

fn open(path: &Path, wanted: &ClassSelection) -> Result<Segmenter, ModelError> {
    Segmenter::open(path, None, wanted, &InferenceEngine::Rten, patient())
}

/// Detections of a network with constant outputs in an image of this size.
fn finds(
    net: &TestNetwork,
    description: Option<&str>,
    wanted: &ClassSelection,
    [width, height]: [usize; 2],
) -> Vec<Detection> {
    let (_folder, path) = folder(net, description);
    let rgb = vec![90; 3 * width * height];
    let segmenter = open(&path, wanted).unwrap_or_else(|e| panic!("{e}"));
    segmenter.detect(&RgbImage { width, height, rgb: &rgb }, patient()).unwrap()
}

fn refusal(net: &TestNetwork, description: Option<&str>) -> String {
    let (folder, path) = folder(net, description);
    let line = open(&path, &ClassSelection::default()).map(|_| ()).unwrap_err().to_string();
    assert!(!line.contains('\n'), "{line}");
    line.replace(&format!("{}/", folder.path().display()), "")
}

/// Whether more than half of a pixel of the image belongs to a detection.
fn is_in(find: &Detection, x: usize, y: usize) -> bool {
    let (x, y) = (x.wrapping_sub(find.corner[0]), y.wrapping_sub(find.corner[1]));
    x < find.size[0] && y < find.size[1] && find.soft_mask[y * find.size[0] + x] >= 128
}

/// Left, top, right and bottom of its pixels.
fn extent(find: &Detection) -> [usize; 4] {
    let all = (0..find.size[1]).flat_map(|y| (0..find.size[0]).map(move |x| (x, y)));
    let inside = all.filter(|&(x, y)| find.soft_mask[y * find.size[0] + x] >= 128);
    inside.fold([usize::MAX, usize::MAX, 0, 0], |e, (x, y)| {
        let (x, y) = (x + find.corner[0], y + find.corner[1]);
        [e[0].min(x), e[1].min(y), e[2].max(x + 1), e[3].max(y + 1)]
    })
}

#[test]
fn what_is_red_is_found_to_the_pixel() {
    let (_folder, path) = folder(&TestNetwork::red_segmenter(64), None);
    let segmenter = open(&path, &ClassSelection::default()).unwrap();
    assert_eq!(segmenter.size(), [64, 64]);
    assert_eq!(segmenter.explanation, "taken for classes of pixels: `mask` [1, 1, 64, 64]");
    let mut rgb = vec![200; 3 * 64 * 64];
    for y in 10..30 {
        for x in 40..61 {
            rgb[3 * (y * 64 + x)..][..3].copy_from_slice(&[230, 20, 30]);
        }
    }
    let picture = RgbImage { width: 64, height: 64, rgb: &rgb };
    let found = segmenter.detect(&picture, patient()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(segmenter.class(found[0].class), "person");
    assert!((0..64 * 64).all(|k| {
        let (x, y) = (k % 64, k / 64);
        is_in(&found[0], x, y) == ((40..61).contains(&x) && (10..30).contains(&y))
    }));
    // The same bytes from both engines.
    assert_eq!(segmenter.detect(&picture, patient()).unwrap(), found);
}

#[test]
fn masks_come_back_to_where_their_pixels_were_however_pictures_are_fitted() {
    // An image of 200x100 with a red mark in each corner, resized to 64x64.
    let (w, h) = (200, 100);
    for fit in ["stretch", "letterbox", "pad"] {
        let text = format!(
            "[input]\nfit = '{fit}'\n[output]\nkind = 'semantic'\nmasks = 'mask'\nactivation = 'none'\n[classes]\nnames = ['person']\n"
        );
        let (_folder, path) = folder(&TestNetwork::red_segmenter(64), Some(&text));
        let segmenter = open(&path, &ClassSelection::default()).unwrap();
        for [left, top] in [[0, 0], [w - 40, 0], [0, h - 40], [w - 40, h - 40]] {
            let mut rgb = vec![200; 3 * w * h];
            for y in top..top + 40 {
                for x in left..left + 40 {
                    rgb[3 * (y * w + x)..][..3].copy_from_slice(&[255, 0, 0]);
                }
            }
            let found = segmenter.detect(&RgbImage { width: w, height: h, rgb: &rgb }, patient());
            let found = &found.unwrap()[0];
            let expected = [left, top, left + 40, top + 40];
            // Half a pixel of the model is 1.6 px of the image.
            let off = extent(found).iter().zip(expected).map(|(a, b)| a.abs_diff(b)).max().unwrap();
            assert!(off <= 2, "{fit}: {:?} (expected {expected:?})", extent(found));
        }
    }
}

#[test]
fn queries_have_masks_of_the_whole_picture() {
    let mut net = TestNetwork::new("input", &[1, 3, 32, 32]);
    // Two queries, three classes: the first is certainly class 1, the second is background.
    net.constant_output("dets", &[1, 2, 4], Weights::Floats(&[0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0]));
    net.constant_output("labels", &[1, 2, 3], Weights::Floats(&[-9.0, 4.0, -9.0, -9.0, -9.0, -9.0]));
    let mut masks = vec![-6.0; 2 * 8 * 8];
    (0..4).for_each(|y| masks[y * 8..y * 8 + 4].fill(6.0));
    net.constant_output("masks", &[1, 2, 8, 8], Weights::Floats(&masks));
    let text = "[output]\nkind = 'query-masks'\nboxes = 'dets'\nscores = 'labels'\nmasks = 'masks'\n[classes]\nnames = ['', 'person', 'dog']\n";
    let found = finds(&net, Some(text), &ClassSelection::default(), [64, 64]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].class, extent(&found[0])), (1, [0, 0, 32, 32]));
    assert!((found[0].confidence - 0.982).abs() < 1e-3);
    // Selecting dogs gives no detection.
    let dogs = ClassSelection { remove: Some(vec!["animal".to_owned()]), ..ClassSelection::default() };
    assert_eq!(finds(&net, Some(text), &dogs, [64, 64]), []);
}

#[test]
fn boxes_have_masks_inside_them() {
    let mut net = TestNetwork::new("image", &[1, 3, 40, 40]);
    net.constant_output("boxes", &[2, 4], Weights::Floats(&[10.0, 20.0, 30.0, 40.0, 0.0, 0.0, 8.0, 8.0]));
    net.constant_output("labels", &[2], Weights::Integers(&[1, 1]));
    net.constant_output("scores", &[2], Weights::Floats(&[0.8, 0.3]));
    // Left half of the box.
    let mask: Vec<f32> = (0..2 * 16).map(|k| if k % 4 < 2 { 1.0 } else { 0.0 }).collect();
    net.constant_output("masks", &[2, 1, 4, 4], Weights::Floats(&mask));
    let found = finds(&net, None, &ClassSelection::default(), [40, 40]);
    assert_eq!(found.len(), 1);
    assert_eq!(extent(&found[0]), [10, 20, 20, 40]);
    // Masks of the size of the input cover all of it, as torchvision's, which are already pasted into their boxes.
    let mut net = TestNetwork::new("image", &[1, 3, 40, 40]);
    net.constant_output("boxes", &[1, 4], Weights::Floats(&[10.0, 20.0, 30.0, 40.0]));
    net.constant_output("labels", &[1], Weights::Integers(&[1]));
    net.constant_output("scores", &[1], Weights::Floats(&[0.8]));
    let pasted: Vec<f32> =
        (0..1600).map(|k| if (12..18).contains(&(k % 40)) && k / 40 >= 30 { 1.0 } else { 0.0 }).collect();
    net.constant_output("masks", &[1, 1, 40, 40], Weights::Floats(&pasted));
    assert_eq!(extent(&finds(&net, None, &ClassSelection::default(), [40, 40])[0]), [12, 30, 18, 40]);
}

#[test]
fn common_masks_are_mixed_and_cut_to_their_boxes() {
    let mut net = TestNetwork::new("images", &[1, 3, 32, 32]);
    // Three anchors with a box, two classes and two mask coefficients each: a column per anchor.
    let anchors = [
        [8.0, 8.0, 12.0, 12.0, 0.9, 0.0, 1.0, 0.0],
        [9.0, 8.0, 12.0, 12.0, 0.8, 0.0, 1.0, 0.0],
        [24.0, 24.0, 16.0, 16.0, 0.0, 0.7, -1.0, 1.0],
    ];
    let table: Vec<f32> = (0..8).flat_map(|k| anchors.iter().map(move |anchor| anchor[k])).collect();
    net.constant_output("output0", &[1, 8, 3], Weights::Floats(&table));
    let mut sheets = vec![8.0; 2 * 16];
    sheets[16..].fill(20.0);
    net.constant_output("output1", &[1, 2, 4, 4], Weights::Floats(&sheets));
    let text = "[output]\nkind = 'prototypes'\nscores = 'output0'\nprototypes = 'output1'\nunits = 'pixels'\n\
                activation = 'none'\nnms = 0.5\n[classes]\nnames = ['person', 'handbag']\n";
    let found = finds(&net, Some(text), &ClassSelection::default(), [32, 32]);
    let of: Vec<_> = found.iter().map(|find| (find.class, extent(find))).collect();
    assert_eq!(of, [(0, [2, 2, 14, 14]), (1, [16, 16, 32, 32])]);
}

#[test]
fn rows_of_models_with_built_in_suppression_are_corners_score_and_class_with_any_number_of_classes() {
    for names in ["'person'", "'dog', 'person'", "'dog', 'person', 'cat'"] {
        let mut net = TestNetwork::new("images", &[1, 3, 64, 64]);
        let class = names.matches(", ").count().min(1);
        net.constant_output(
            "output",
            &[1, 2, 6],
            Weights::Floats(&[22.0, 12.0, 42.0, 20.0, 0.9, class as f32, 0.0, 0.0, 9.0, 9.0, 0.1, 0.0]),
        );
        let text = format!(
            "[output]\nkind = 'boxes'\nscores = 'output'\nbox = 'xyxy'\nunits = 'pixels'\nactivation = 'none'\n[classes]\nnames = [{names}]\n"
        );
        let found = finds(&net, Some(&text), &ClassSelection::default(), [64, 64]);
        let of: Vec<_> = found.iter().map(|find| (find.class, find.confidence, extent(find))).collect();
        assert_eq!(of, [(class, 0.9, [22, 12, 42, 20])], "{names}");
    }
}

#[test]
fn boxes_alone_are_taken_whole() {
    let mut net = TestNetwork::new("images", &[1, 3, 64, 64]);
    let mut table = vec![0.0; 4 * 85];
    table[..7].copy_from_slice(&[32.0, 16.0, 20.0, 8.0, 0.9, 0.9, 0.1]);
    table[85..92].copy_from_slice(&[33.0, 16.0, 20.0, 8.0, 0.9, 0.8, 0.1]);
    net.constant_output("output", &[1, 4, 85], Weights::Floats(&table));
    let found = finds(&net, None, &ClassSelection::default(), [64, 64]);
    assert_eq!(found.len(), 1);
    assert_eq!(extent(&found[0]), [22, 12, 42, 20]);
    assert!((found[0].confidence - 0.81).abs() < 1e-5);
}

/// An encoder that returns the redness of each pixel, and a decoder that returns its part in the box and, with a lower
/// score, everything. Returns the folder and the path of the box model that uses them.
fn promptable(prompt: &str) -> (TempDir, PathBuf) {
    let side = 32;
    let mut boxes = TestNetwork::new("images", &[1, 3, 64, 64]);
    // A person in the left half, and one with a low score.
    boxes.constant_output("boxes", &[1, 2, 4], Weights::Floats(&[0.0, 0.0, 0.5, 1.0, 0.5, 0.0, 1.0, 1.0]));
    boxes.constant_output("scores", &[1, 2, 1], Weights::Floats(&[0.9, 0.2]));
    let text = "[output]\nkind = 'boxes'\nboxes = 'boxes'\nscores = 'scores'\nbox = 'xyxy'\nactivation = 'none'\n\
                prompt = 'sam.toml'\n[classes]\nnames = ['person']\n";
    let (folder, path) = folder(&boxes, Some(text));
    let mut encoder = TestNetwork::new("image", &[1, 3, side, side]);
    encoder.weights("w", &[1, 3, 1, 1], Weights::Floats(&[40.0, -20.0, -20.0]));
    encoder.weights("b", &[1], Weights::Floats(&[-20.0]));
    encoder.node(
        "Conv",
        &["image", "w", "b"],
        &["embedding"],
        &[Attribute::Integers("kernel_shape", &[1, 1])],
    );
    encoder.output("embedding");
    let mut decoder = TestNetwork::new("image_embeddings", &[1, 1, side, side]);
    decoder.input("point_coords", &[1, -1, 2]);
    decoder.input("point_labels", &[1, -1]);
    decoder.input("mask_input", &[1, 1, side, side]);
    decoder.input("orig_im_size", &[2]);
    let centres: Vec<f32> = (0..side).map(|k| k as f32 + 0.5).collect();
    decoder.weights("column", &[1, 1, 1, side], Weights::Floats(&centres));
    decoder.weights("row", &[1, 1, side, 1], Weights::Floats(&centres));
    decoder.weights("four", &[1], Weights::Integers(&[4]));
    decoder.node("Reshape", &["point_coords", "four"], &["edges"], &[]);
    for (k, (name, axis)) in
        [("left", "column"), ("top", "row"), ("right", "column"), ("bottom", "row")].iter().enumerate()
    {
        let at = format!("at_{name}");
        decoder.weights(&at, &[1], Weights::Integers(&[k as i64]));
        decoder.node("Gather", &["edges", &at], &[name], &[Attribute::Integer("axis", 0)]);
        let inside = if k < 2 { [axis, *name] } else { [*name, axis] };
        decoder.node("Sub", &inside, &[&format!("in_{name}")], &[]);
    }
    decoder.node("Min", &["in_left", "in_top", "in_right", "in_bottom", "image_embeddings"], &["cut"], &[]);
    // Wrong labels move everything out of the box: 2 and 3 are the corners of a box.
    decoder.weights("labels", &[1, 2], Weights::Floats(&[2.0, 3.0]));
    decoder.weights("axes", &[2], Weights::Integers(&[0, 1]));
    decoder.node("Sub", &["point_labels", "labels"], &["wrong"], &[]);
    decoder.node("Abs", &["wrong"], &["far"], &[]);
    decoder.node("ReduceSum", &["far", "axes"], &["sum"], &[Attribute::Integer("keepdims", 0)]);
    decoder.weights("much", &[1], Weights::Floats(&[1000.0]));
    decoder.node("Mul", &["sum", "much"], &["penalty"], &[]);
    decoder.node("Sub", &["cut", "penalty"], &["labelled"], &[]);
    decoder.node("Add", &["labelled", "mask_input"], &["first"], &[]);
    decoder.weights("all", &[1, 1, side, side], Weights::Floats(&vec![9.0; (side * side) as usize]));
    decoder.node("Concat", &["all", "first"], &["low_res_masks"], &[Attribute::Integer("axis", 1)]);
    decoder.output("low_res_masks");
    // The size input is used, but changes nothing.
    decoder.node("Identity", &["orig_im_size"], &["seen"], &[]);
    decoder.output("seen");
    decoder.constant_output("iou_predictions", &[1, 2], Weights::Floats(&[0.1, 0.8]));
    std::fs::write(folder.path().join("encoder.onnx"), encoder.bytes()).unwrap();
    std::fs::write(folder.path().join("decoder.onnx"), decoder.bytes()).unwrap();
    std::fs::write(folder.path().join("sam.toml"), prompt).unwrap();
    (folder, path)
}

const SAM: &str = "[output]\nkind = 'promptable'\nmasks = 'low_res_masks'\nscores = 'iou_predictions'\n\
                   [prompt]\nencoder = 'encoder.onnx'\ndecoder = 'decoder.onnx'\nfeatures = { image_embeddings = 'embedding' }\n";

#[test]
fn a_promptable_model_cuts_out_what_is_in_the_boxes() {
    let (_folder, path) = promptable(SAM);
    let segmenter = open(&path, &ClassSelection::default()).unwrap_or_else(|e| panic!("{e}"));
    // Red from column 40 to 120 and row 20 to 100 of 128 px; the box is the left half.
    let side = 128;
    let mut rgb = vec![200; 3 * side * side];
    for y in 20..100 {
        for x in 40..120 {
            rgb[3 * (y * side + x)..][..3].copy_from_slice(&[230, 20, 30]);
        }
    }
    let found = segmenter.detect(&RgbImage { width: side, height: side, rgb: &rgb }, patient()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].class, found[0].confidence), (0, 0.9));
    // The intersection of red and box, to a quarter of a pixel of the model.
    let expected = [40usize, 20, 64, 100];
    let off = extent(&found[0]).iter().zip(expected).map(|(a, b)| a.abs_diff(b)).max();
    assert!(off <= Some(1), "{:?}", extent(&found[0]));
    // Another promptable model changes the result.
    let before = segmenter.settings();
    std::fs::write(path.with_file_name("sam.toml"), SAM.replace("scores = 'iou_predictions'\n", "")).unwrap();
    let first = open(&path, &ClassSelection::default()).unwrap();
    assert_ne!(first.settings(), before);
    // Without scores the first mask is used: everything.
    let found = first.detect(&RgbImage { width: side, height: side, rgb: &rgb }, patient()).unwrap();
    assert_eq!(extent(&found[0]), [0, 0, 128, 128]);
    // All three files influence the hash.
    let length = |name: &str| std::fs::metadata(path.with_file_name(name)).unwrap().len();
    let files = ["model.onnx", "encoder.onnx", "decoder.onnx"].map(length);
    assert_eq!(first.memory().shared, files.iter().sum::<u64>());
}

#[test]
fn mistakes_about_promptable_models_are_named() {
    let refused = |text: &str| {
        let (folder, path) = promptable(text);
        let line = open(&path, &ClassSelection::default()).map(|_| ()).unwrap_err().to_string();
        assert!(!line.contains('\n'), "{line}");
        line.replace(&format!("{}/", folder.path().display()), "")
    };
    assert_eq!(
        refused(&SAM.replace("image_embeddings = 'embedding'", "")),
        "sam.toml: [prompt] features: nothing goes from the encoder to the decoder"
    );
    assert_eq!(
        refused(&SAM.replace("'embedding'", "'embeding'")),
        "sam.toml: [prompt] features: the encoder has no output `embeding` (has embedding)"
    );
    assert_eq!(
        refused(&SAM.replace("[prompt]\n", "[prompt]\ncoordinates = 'points'\n")),
        "sam.toml: [prompt] features: the decoder's input `point_coords` has no source, and no fixed size to fill with zeros"
    );
    assert!(refused(&SAM.replace("'encoder.onnx'", "'../encoder.onnx'")).contains("leads out of its folder"));
    assert!(refused(&SAM.replace("'decoder.onnx'", "'absent.onnx'")).starts_with("absent.onnx: model: "));
    assert_eq!(
        refused(&SAM.replace("masks = 'low_res_masks'", "masks = 'masks'")),
        "sam.toml: [output]: the decoder has no output `masks` (has low_res_masks, seen, iou_predictions)"
    );
    assert_eq!(
        refused("[output]\nkind = 'boxes'\nscores = 's'\n"),
        "sam.toml: [output] kind: expected `promptable`"
    );
    // By itself it is refused.
    let (folder, _) = promptable(SAM);
    let path = folder.path().join("encoder.onnx");
    std::fs::write(folder.path().join("encoder.toml"), SAM).unwrap();
    let line = open(&path, &ClassSelection::default()).map(|_| ()).unwrap_err().to_string();
    assert!(line.contains("a promptable model needs boxes; name this file in [output] prompt"), "{line}");
}

#[test]
fn numbers_of_classes_are_read_as_they_are() {
    let mut net = TestNetwork::new("x", &[1, 3, 32, 32]);
    let numbers: Vec<i64> = (0..16).map(|k| if k % 4 == 3 { 15 } else { 0 }).collect();
    net.constant_output("classes", &[1, 4, 4], Weights::Integers(&numbers));
    let text =
        "[output]\nkind = 'semantic'\nmasks = 'classes'\nactivation = 'none'\n[classes]\nlist = 'voc21'\n";
    let found = finds(&net, Some(text), &ClassSelection::default(), [32, 32]);
    assert_eq!((found.len(), found[0].class, extent(&found[0])), (1, 15, [24, 0, 32, 32]));
}

#[test]
fn files_that_are_no_usable_models_are_refused_in_one_line() {
    let text = |net: &TestNetwork| refusal(net, None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let line = open(&path, &ClassSelection::default()).map(|_| ()).unwrap_err().to_string();
        line.rsplit_once("m.onnx: ").unwrap().1.to_owned()
    };
    assert!(refused(b"\x89PNG").starts_with("model: is not an ONNX model"));
    assert!(refused(b"").starts_with("model: is not an ONNX model"));
    let whole = TestNetwork::red_segmenter(8).bytes();
    assert!(refused(&whole[..whole.len() - 9]).starts_with("model: is cut or damaged"));
    // A sparse file of three GB.
    std::fs::File::create(&path).unwrap().set_len(3 << 30).unwrap();
    let line = open(&path, &ClassSelection::default()).map(|_| ()).unwrap_err().to_string();
    assert!(line.contains("model: ") && line.contains("3221225472") | line.contains("GiB"), "{line}");

    let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
    net.node("RoiAlign", &["x"], &["y"], &[]);
    net.custom_node("com.example", "Odd", &["y"], &["z"]);
    net.output("z");
    let line = text(&net);
    assert!(
        line.starts_with("model.onnx: model: needs RoiAlign, com.example.Odd, which the built-in engine"),
        "{line}"
    );
    assert!(
        text(&TestNetwork::red_segmenter(8).with_opset(99))
            .contains("operators of version 99 (expected 7 to 24)")
    );
    assert!(text(&TestNetwork::red_segmenter(-1)).contains("input `image` has no fixed size"));
    // 120 GB of floats.
    assert_eq!(
        text(&TestNetwork::red_segmenter(100_000)),
        "model.onnx: input `image` has 100000x100000 px (expected sides of 8 to 4096 px)"
    );

    let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
    net.weights("w", &[1], Weights::External("w.data"));
    net.node("Mul", &["x", "w"], &["y"], &[]);
    net.output("y");
    assert!(text(&net).contains("names the file w.data: "), "{}", text(&net));
    let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
    net.weights("w", &[1], Weights::External("../../etc/passwd"));
    net.node("Mul", &["x", "w"], &["y"], &[]);
    net.output("y");
    assert!(text(&net).contains("leads out of its folder"), "{}", text(&net));
}

/// Redness after this many operators in a chain and those of an `If` whose bodies are chains of this many.
fn long([outer, inner]: [usize; 2]) -> TestNetwork {
    let mut net = TestNetwork::new("image", &[1, 3, 16, 16]);
    net.weights("w", &[1, 3, 1, 1], Weights::Floats(&[40.0, -20.0, -20.0]));
    let sizes =
        [("kernel_shape", &[1; 2][..]), ("strides", &[1; 2]), ("pads", &[0; 4]), ("dilations", &[1; 2])];
    let sizes = sizes.map(|(name, values)| Attribute::Integers(name, values));
    net.node("Conv", &["image", "w"], &["red"], &sizes);
    net.node("ReduceMax", &["red"], &["most"], &[Attribute::Integer("keepdims", 0)]);
    net.node("Cast", &["most"], &["is_any"], &[Attribute::Integer("to", 9)]);
    let body = |name: &str, count| {
        let mut body = TestNetwork::default();
        body.operator_chain("Relu", "red", name, count);
        body.output(name);
        body
    };
    let (then, other) = (body("then", inner / 2), body("other", inner - inner / 2));
    let bodies = [Attribute::Graph("then_branch", &then), Attribute::Graph("else_branch", &other)];
    net.node("If", &["is_any"], &["first"], &bodies);
    net.operator_chain("Relu", "first", "last", outer - 5);
    net.node("Sigmoid", &["last"], &["mask"], &[]);
    net.output("mask");
    net
}

#[test]
fn a_model_with_as_many_operators_in_a_row_as_any_may_have_is_run() {
    // Debug builds use more stack per operator.
    let (_folder, path) = folder(&long([20_000, 2000]), None);
    let segmenter = open(&path, &ClassSelection::default()).unwrap();
    let rgb = [230, 20, 30].repeat(16 * 16);
    let found = segmenter.detect(&RgbImage { width: 16, height: 16, rgb: &rgb }, patient()).unwrap();
    assert_eq!(extent(&found[0]), [0, 0, 16, 16]);
}

#[test]
fn a_model_that_is_deeper_than_engines_can_descend_is_refused_before_they_see_it() {
    let many = "model.onnx: model: has too many operators";
    let expected = format!("{many} (expected at most 20000, found 20001)");
    assert_eq!(refusal(&long([20_001, 2]), None), expected);
    let expected = format!("{many} in the bodies of If and Loop (expected at most 2000, found 2001)");
    assert_eq!(refusal(&long([9, 2001]), None), expected);
    let deep =
        "model.onnx: model: has graphs or types inside one another (expected at most 16 deep, found more)";
    let mut net = TestNetwork::default();
    net.nested_output("deep", 20_000);
    assert_eq!(refusal(&net, None), deep);
    let mut net = TestNetwork::default();
    for _ in 0..17 {
        let inner = std::mem::take(&mut net);
        net.node("Loop", &["m"], &["y"], &[Attribute::Graph("body", &inner)]);
    }
    assert_eq!(refusal(&net, None), deep);
}

#[test]
fn weights_beside_a_model_are_read() {
    let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
    net.weights("w", &[1], Weights::External("w.data"));
    net.node("Mul", &["x", "w"], &["scaled"], &[]);
    net.weights("axes", &[1], Weights::Integers(&[1]));
    net.node(
        "ReduceMean",
        &["scaled"],
        &["y"],
        &[Attribute::Integers("axes", &[1]), Attribute::Integer("keepdims", 1)],
    );
    net.output("y");
    let (folder, path) = folder(&net, None);
    std::fs::write(folder.path().join("w.data"), 2f32.to_le_bytes()).unwrap();
    let first = open(&path, &ClassSelection::default()).unwrap();
    std::fs::write(folder.path().join("w.data"), 3f32.to_le_bytes()).unwrap();
    assert_ne!(open(&path, &ClassSelection::default()).unwrap().hash(), first.hash());
}

#[test]
fn weights_in_a_file_of_another_name_are_told_before_the_engine_refuses_them() {
    let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
    net.weights("w", &[1], Weights::External("w.bin"));
    net.node("Mul", &["x", "w"], &["y"], &[]);
    net.output("y");
    let (folder, path) = folder(&net, None);
    std::fs::write(folder.path().join("w.bin"), 2f32.to_le_bytes()).unwrap();
    let line = open(&path, &ClassSelection::default()).map(|_| ()).unwrap_err().to_string();
    let expected = "names the file w.bin (expected NAME.data or NAME.onnx_data beside it); take ⟨mask-engine = onnxruntime⟩";
    assert!(line.contains(expected), "{line}");
}

#[test]
fn outputs_and_classes_that_do_not_fit_are_refused_in_one_line() {
    let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
    net.constant_output("y", &[1, 7], Weights::Floats(&[0.0; 7]));
    assert_eq!(
        refusal(&net, None),
        "model.onnx: model: has outputs that match no known model: `y` [1, 7]; describe it in model.toml (docs/reference/masks.md)"
    );
    let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
    net.constant_output("masks", &[1, 1, 2, 2], Weights::Floats(&[0.0, f32::NAN, 0.0, 0.0]));
    assert!(
        refusal(&net, None)
            .ends_with("output `masks` has values that are not finite; export the model again")
    );
    let text = "[output]\nkind = 'semantic'\nmasks = 'mesk'\n[classes]\nnames = ['person']\n";
    assert_eq!(
        refusal(&TestNetwork::red_segmenter(8), Some(text)),
        "model.toml: [output]: the model has no output `mesk` (has mask); did you mean `mask`?"
    );
    let text = "[output]\nkind = 'semantic'\nmasks = 'mask'\n[classes]\nnames = ['sky', 'person']\n";
    // One map and two classes: class indices, of which there are none.
    assert!(
        !refusal(
            &TestNetwork::red_segmenter(8),
            Some("[output]\nkind = 'boxes'\nscores = 'mask'\n[classes]\nnames = ['person']\n")
        )
        .is_empty()
    );
    let (_folder, path) = folder(&TestNetwork::red_segmenter(8), Some(text));
    let wanted = ClassSelection { remove: Some(vec!["persn".to_owned()]), ..ClassSelection::default() };
    let line = open(&path, &wanted).map(|_| ()).unwrap_err().to_string();
    assert_eq!(line, "⟨remove⟩: the model has no class or group `persn` (did you mean `person`?)");
    let wanted = ClassSelection { keep: vec!["person".to_owned()], ..ClassSelection::default() };
    let line = open(&path, &wanted).map(|_| ()).unwrap_err().to_string();
    assert!(line.starts_with("⟨remove⟩: no class is selected"), "{line}");
}

#[test]
fn a_run_ends_when_it_is_asked_to_and_when_it_takes_too_long() {
    // A convolution that takes a while: 65 x 65 over 512 x 512.
    let mut net = TestNetwork::new("x", &[1, 3, 512, 512]);
    net.weights("w", &[8, 3, 65, 65], Weights::Floats(&vec![0.0; 8 * 3 * 65 * 65]));
    net.weights("v", &[8, 8, 65, 65], Weights::Floats(&vec![0.0; 8 * 8 * 65 * 65]));
    let pads = [
        Attribute::Integers("kernel_shape", &[65, 65]),
        Attribute::Integers("strides", &[1, 1]),
        Attribute::Integers("pads", &[32, 32, 32, 32]),
        Attribute::Integers("dilations", &[1, 1]),
    ];
    net.node("Conv", &["x", "w"], &["a"], &pads);
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")] {
        net.node("Conv", &[from, "v"], &[to], &pads);
    }
    net.node("ReduceMean", &["e"], &["y"], &[Attribute::Integers("axes", &[1])]);
    net.output("y");
    let (_folder, path) = folder(&net, None);
    let stop = AtomicBool::new(true);
    let stopped = Segmenter::open(
        &path,
        None,
        &ClassSelection::default(),
        &InferenceEngine::Rten,
        RunLimits { stop: &stop, limit: Duration::from_secs(60) },
    );
    assert_eq!(stopped.map(|_| ()).unwrap_err(), ModelError::Stopped);
    let late = Segmenter::open(
        &path,
        None,
        &ClassSelection::default(),
        &InferenceEngine::Rten,
        RunLimits { stop: &NEVER, limit: Duration::ZERO },
    );
    let line = late.map(|_| ()).unwrap_err().to_string();
    assert!(line.contains("an image took longer than 0 s; raise ⟨model-timeout⟩"), "{line}");
}
