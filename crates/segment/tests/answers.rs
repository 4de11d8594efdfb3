//! The built-in engine against ONNX Runtime, on networks without trained weights (made by `bench/make_onnx.py`).

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_segment::{Model, Runner, Tensor, Watch};
use gausset_testkit::testdata_dir;

/// Largest difference, in parts of the largest value.
const TOLERANCE: f32 = 1e-5;

#[test]
fn outputs_are_those_of_onnx_runtime() {
    let stop = AtomicBool::new(false);
    let watch = Watch { stop: &stop, limit: Duration::from_secs(60) };
    for name in ["convolutions", "attention", "sorting"] {
        let path = testdata_dir().join("onnx").join(name).with_extension("onnx");
        let model = Model::open(&path).unwrap_or_else(|e| panic!("{e}"));
        let data = (0..3 * 32 * 32).map(|k| (k * 7919 % 1000) as f32 / 1000.0).collect();
        let outputs: Vec<&str> = model.outputs.iter().map(|port| port.name.as_str()).collect();
        let input = Tensor { shape: vec![1, 3, 32, 32], data };
        let found = model.run(&Runner::default(), ("x", input), &outputs, watch).unwrap();
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
