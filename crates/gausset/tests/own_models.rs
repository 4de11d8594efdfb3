//! Models with weights, which are not in the repository: `GAUSSET_MODELS=DIR` is a folder of models with descriptions.
//! Each one runs over `walk` and `garden`; masks and cut-outs stay in `DIR/pictures` for inspection.
#![cfg(feature = "masks")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset::mask::{MaskOptions, OutputModes, mask};
use gausset::mask_engine::{EngineKind, MaskEngine};
use gausset::{Event, Host};
use gausset_testkit::{data_file, skip_for_machine};

#[test]
#[allow(clippy::print_stderr, reason = "what was found, for people")]
fn models_of_a_folder_find_something_in_walk_and_garden() {
    const TEST: &str = "models with weights";
    let Some(folder) = std::env::var_os("GAUSSET_MODELS").map(PathBuf::from) else {
        return skip_for_machine(TEST, "no $GAUSSET_MODELS (a folder of models with their descriptions)");
    };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut models: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    models.retain(|path| {
        path.extension().is_some_and(|e| e == "onnx") && path.with_extension("toml").is_file()
    });
    models.sort();
    assert!(!models.is_empty(), "{}: no NAME.onnx with a NAME.toml beside it", folder.display());
    let stop = Arc::new(AtomicBool::new(false));
    for scene in ["walk", "garden"] {
        let Some(data) = data_file(TEST, &format!("pano/{scene}")) else { return };
        for model in &models {
            let name = model.file_stem().unwrap_or_default();
            let output = folder.join("pictures").join(name).join(scene);
            let with = |kind| {
                let options = MaskOptions {
                    model: Some(model.clone()),
                    modes: OutputModes::Both,
                    engine: MaskEngine { kind, ..MaskEngine::default() },
                    force: true,
                    ..MaskOptions::new(&data, &output)
                };
                mask(&options, false, &mut Host::new(&stop, &mut |_: Event| {}))
            };
            let done = match with(EngineKind::Rten) {
                Err(failure) if failure.message.contains("which the built-in engine") => {
                    with(EngineKind::OnnxRuntime)
                }
                done => done,
            };
            let done = done.unwrap_or_else(|failure| panic!("{}", failure.message));
            let inference = done.times.stages.iter().find(|stage| stage.stage == "inference");
            eprintln!(
                "{}, {scene}, {}: {} of {} frames with finds, {:?}, {:.2} % removed, {:.1} CPU s of inference",
                model.display(),
                done.engine,
                done.with_finds,
                done.frames,
                done.classes,
                100.0 * done.removed_mean,
                inference.map_or(0.0, |stage| stage.spent.cpu_s)
            );
            assert_eq!(done.skipped.len(), 0, "{:?}", done.skipped);
        }
    }
}
