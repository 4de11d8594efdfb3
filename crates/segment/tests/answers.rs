//! Both engines against ONNX Runtime in Python and against each other, on networks without trained weights (made by
//! `bench/make_onnx.py`).

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_segment::{InferenceEngine, OnnxModel, RunLimits, Tensor};
use gausset_testkit::testdata_dir;

/// Largest difference, relative to the largest value.
const TOLERANCE: f32 = 1e-5;

static NEVER: AtomicBool = AtomicBool::new(false);

fn patient() -> RunLimits<'static> {
    RunLimits { stop: &NEVER, limit: Duration::from_secs(60) }
}

fn outputs_are_those_of_python(engine: &InferenceEngine) {
    for name in ["convolutions", "attention", "sorting"] {
        let path = testdata_dir().join("onnx").join(name).with_extension("onnx");
        let model = OnnxModel::open(&path, engine).unwrap_or_else(|e| panic!("{e}"));
        let data = (0..3 * 32 * 32).map(|k| (k * 7919 % 1000) as f32 / 1000.0).collect();
        let outputs: Vec<&str> = model.outputs.iter().map(|port| port.name.as_str()).collect();
        let input = Tensor { shape: vec![1, 3, 32, 32], data };
        let found = model.run(vec![("x", input)], &outputs, patient()).unwrap();
        let bytes = std::fs::read(path.with_extension("answers")).unwrap();
        let answers: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert_eq!(found.iter().map(|tensor| tensor.data.len()).sum::<usize>(), answers.len(), "{name}");
        let mut rest = answers.as_slice();
        for (tensor, output) in found.iter().zip(outputs) {
            let (expected, next) = rest.split_at(tensor.data.len());
            rest = next;
            let largest = expected.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            let worst = tensor.data.iter().zip(expected).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
            assert!(
                worst <= TOLERANCE * largest,
                "{name}: {output} is off by {worst} (largest value {largest})"
            );
        }
    }
}

#[test]
fn outputs_are_those_of_onnx_runtime() {
    outputs_are_those_of_python(&InferenceEngine::Rten);
}

#[cfg(feature = "onnxruntime")]
mod with_onnx_runtime {
    use gausset_segment::{ClassSelection, LibraryChoice, ModelError, RgbImage, Segmenter};
    use gausset_testkit::onnx::{Attribute, TestNetwork, Weights};
    use gausset_testkit::skip_for_tool;

    use super::*;

    /// The library of the Python that tests run with.
    fn engine(test: &str) -> Option<InferenceEngine> {
        match InferenceEngine::onnx_runtime(&LibraryChoice::default(), &NEVER) {
            Ok(engine) => Some(engine),
            Err(error) => {
                skip_for_tool(test, &error.to_string());
                None
            }
        }
    }

    #[test]
    fn outputs_of_the_library_are_those_of_its_python() {
        let Some(engine) = engine("outputs of the library") else { return };
        assert!(engine.name().starts_with("ONNX Runtime 1."), "{}", engine.name());
        outputs_are_those_of_python(&engine);
    }

    /// Output of a model for an image with red, green and blue parts: the probability of each pixel.
    fn found(path: &std::path::Path, engine: &InferenceEngine, wanted: &ClassSelection) -> Vec<u8> {
        let segmenter =
            Segmenter::open(path, None, wanted, engine, patient()).unwrap_or_else(|e| panic!("{e}"));
        let side = 160;
        let colour = |k: usize| {
            let (x, y) = (k % side, k / side);
            let wave = |a: usize, b: usize| (127.0 + 120.0 * ((x * a + y * b) as f64 / 37.0).sin()) as u8;
            [wave(1, 2), wave(3, 1), wave(2, 5)]
        };
        let rgb: Vec<u8> = (0..side * side).flat_map(colour).collect();
        let finds = segmenter.detect(&RgbImage { width: side, height: side, rgb: &rgb }, patient()).unwrap();
        let mut shares = vec![0; side * side];
        for find in finds {
            for (k, soft) in find.soft_mask.iter().enumerate() {
                let (x, y) = (find.corner[0] + k % find.size[0], find.corner[1] + k / find.size[0]);
                shares[y * side + x] = shares[y * side + x].max(*soft);
            }
        }
        shares
    }

    #[test]
    fn masks_of_both_engines_are_the_same() {
        let Some(engine) = engine("masks of both engines") else { return };
        let folder = tempfile::tempdir().unwrap();
        let red = folder.path().join("red.onnx");
        std::fs::write(&red, TestNetwork::red_segmenter(64).bytes()).unwrap();
        let convolutions = folder.path().join("convolutions.onnx");
        std::fs::copy(testdata_dir().join("onnx/convolutions.onnx"), &convolutions).unwrap();
        let text = "[output]\nkind = 'semantic'\nmasks = 'masks'\nactivation = 'softmax'\n\
                    [classes]\nnames = ['person', 'chair', 'handbag', 'sky']\n";
        std::fs::write(convolutions.with_extension("toml"), text).unwrap();
        let all = ClassSelection { confidence: 0.05, ..ClassSelection::default() };
        for path in [red, convolutions] {
            let (ours, theirs) = (found(&path, &InferenceEngine::Rten, &all), found(&path, &engine, &all));
            let count =
                |is: &dyn Fn(u8, u8) -> bool| ours.iter().zip(&theirs).filter(|(a, b)| is(**a, **b)).count();
            let both = count(&|a, b| a >= 128 && b >= 128);
            let either = count(&|a, b| a >= 128 || b >= 128);
            assert!(either > 100, "{}: nothing is found", path.display());
            let iou = both as f64 / either as f64;
            assert!(iou >= 0.999, "{}: {iou}", path.display());
        }
    }

    #[test]
    fn operators_that_the_built_in_engine_lacks_run_and_it_says_who_can() {
        let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
        net.weights("rois", &[1, 4], Weights::Floats(&[1.0, 1.0, 5.0, 5.0]));
        net.weights("of", &[1], Weights::Integers(&[0]));
        let size = [Attribute::Integer("output_height", 2), Attribute::Integer("output_width", 2)];
        net.node("RoiAlign", &["x", "rois", "of"], &["y"], &size);
        net.output("y");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roi.onnx");
        std::fs::write(&path, net.bytes()).unwrap();
        let line = OnnxModel::open(&path, &InferenceEngine::Rten).map(|_| ()).unwrap_err().to_string();
        assert!(line.contains("needs RoiAlign, which the built-in engine (rten) does not have"), "{line}");
        assert!(line.contains("take ⟨mask-engine = onnxruntime⟩"), "{line}");
        let Some(engine) = engine("an operator that rten lacks") else { return };
        let model = OnnxModel::open(&path, &engine).unwrap();
        // x(column) = its column: half-pixel corners 0.5 to 4.5 in two cells, whose means are 1.5 and 3.5.
        let data = (0..3 * 64).map(|k| (k % 8) as f32).collect();
        let found =
            model.run(vec![("x", Tensor { shape: vec![1, 3, 8, 8], data })], &["y"], patient()).unwrap();
        assert_eq!(found[0].shape, [1, 3, 2, 2]);
        assert!(
            found[0].data.chunks(2).all(|row| (row[0] - 1.5).abs() < 1e-5 && (row[1] - 3.5).abs() < 1e-5)
        );
        let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
        net.custom_node("com.example", "Odd", &["x"], &["z"]);
        net.output("z");
        std::fs::write(&path, net.bytes()).unwrap();
        let line = OnnxModel::open(&path, &engine).map(|_| ()).unwrap_err().to_string();
        assert!(
            line.contains("model: cannot be used: ") && line.contains("Odd") && !line.contains('\n'),
            "{line}"
        );
    }

    #[test]
    fn weights_beside_a_model_are_given_to_the_library() {
        let Some(engine) = engine("weights beside a model") else { return };
        let mut net = TestNetwork::new("x", &[1, 3, 2, 2]);
        net.weights("w", &[1], Weights::External("w.data"));
        net.node("Mul", &["x", "w"], &["y"], &[]);
        net.output("y");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, net.bytes()).unwrap();
        std::fs::write(folder.path().join("w.data"), 2.5f32.to_le_bytes()).unwrap();
        let model = OnnxModel::open(&path, &engine).unwrap();
        let input = Tensor { shape: vec![1, 3, 2, 2], data: vec![2.0; 12] };
        assert_eq!(model.run(vec![("x", input)], &["y"], patient()).unwrap()[0].data, [5.0; 12]);
    }

    #[test]
    fn runs_side_by_side_give_the_same_bytes() {
        let Some(engine) = engine("runs side by side") else { return };
        let path = testdata_dir().join("onnx/attention.onnx");
        let model = OnnxModel::open(&path, &engine).unwrap();
        let run = || {
            let data = (0..3 * 32 * 32).map(|k| (k * 31 % 997) as f32 / 997.0).collect();
            let input = Tensor { shape: vec![1, 3, 32, 32], data };
            model.run(vec![("x", input)], &["dets", "labels", "masks"], patient()).unwrap()
        };
        let alone = run();
        std::thread::scope(|scope| {
            let both: Vec<_> =
                (0..2).map(|_| scope.spawn(|| (0..20).map(|_| run()).collect::<Vec<_>>())).collect();
            for runs in both {
                assert!(runs.join().unwrap().iter().all(|found| *found == alone));
            }
        });
    }

    #[test]
    fn a_run_that_is_given_up_ends() {
        let Some(engine) = engine("a run that is given up") else { return };
        let mut net = TestNetwork::new("x", &[1, 8, 512, 512]);
        net.weights("v", &[8, 8, 65, 65], Weights::Floats(&vec![0.0; 8 * 8 * 65 * 65]));
        let pads = [Attribute::Integers("kernel_shape", &[65, 65]), Attribute::Integers("pads", &[32; 4])];
        let names: Vec<String> = (0..40).map(|k| format!("v{k}")).collect();
        let mut from = "x";
        for name in &names {
            net.node("Conv", &[from, "v"], &[name], &pads);
            from = name;
        }
        net.output(from);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, net.bytes()).unwrap();
        let model = OnnxModel::open(&path, &engine).unwrap();
        let input = Tensor { shape: vec![1, 8, 512, 512], data: vec![0.0; 8 * 512 * 512] };
        let stop = AtomicBool::new(true);
        let watch = RunLimits { stop: &stop, limit: Duration::from_secs(60) };
        assert_eq!(model.run(vec![("x", input)], &[from], watch), Err(ModelError::Stopped));
    }
}
