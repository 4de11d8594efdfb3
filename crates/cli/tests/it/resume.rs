//! `gausset run` and `gausset align`: the same command resumes or prints its result again, a different one is refused
//! with the differences, and files not created by Gausset are not replaced or removed. COLMAP and ffmpeg are stand-ins.

use std::collections::BTreeMap;
use std::path::Path;

use gausset_io::dataset::colmap::{ModelFolder, ModelFormat, Observations};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ProcessResult, TestFolder, contains_result, files_below, script, wait_until};

/// Eight photographs of 32x24 px in `photos`, a video of eight such frames, and stand-ins for COLMAP and ffmpeg.
fn workshop() -> TestFolder {
    let workshop = TestFolder::with_data();
    std::fs::rename(workshop.path("data/images"), workshop.path("photos")).expect("the photographs");
    std::fs::rename(workshop.path("data/sparse/0"), workshop.path("model")).expect("their model");
    std::fs::remove_dir_all(workshop.path("data")).expect("an empty folder");
    // The same poses, of frames of a video.
    let found = ModelFolder::find(&workshop.path("model")).expect("a folder").expect("a model");
    let mut model = found.read(Observations::Keep).expect("a model");
    for (k, image) in model.images.iter_mut().enumerate() {
        image.name = format!("frame_{k:06}.jpg");
    }
    std::fs::create_dir(workshop.path("video-model")).expect("a folder");
    for (name, bytes) in model.to_files(ModelFormat::Binary) {
        std::fs::write(workshop.path("video-model").join(name), bytes).expect("a file");
    }
    std::fs::write(workshop.path("walk.mp4"), b"a video").expect("a file");
    let (calls, here) = (workshop.path("calls"), workshop.path(""));
    let (calls, here) = (calls.display(), here.display());
    script(
        &workshop.path("colmap"),
        &format!(
            "if [ \"$1\" = help ]; then echo 'COLMAP 3.13.0 -- Structure-from-Motion'; exit 0; fi
echo \"colmap $@\" >> {calls}
images=photos
for word; do case \"$word\" in */frames) images=video;; esac; done
[ \"$1\" = mapper ] || exit 0
while [ \"$1\" != --output_path ]; do shift; done
mkdir -p \"$2/0\"
if [ $images = video ]; then cp {here}/video-model/* \"$2/0\"; else cp {here}/model/* \"$2/0\"; fi"
        ),
    );
    std::fs::create_dir(workshop.path("bin")).expect("a folder");
    script(
        &workshop.path("bin/ffprobe"),
        "echo '{\"streams\": [{\"width\": 32, \"height\": 24, \"avg_frame_rate\": \"2/1\", \"duration\": \"4\", \"pix_fmt\": \"yuv420p\"}]}'",
    );
    script(
        &workshop.path("bin/ffmpeg"),
        &format!("echo \"ffmpeg $@\" >> {calls}\nhead -c {} /dev/zero", 8 * 32 * 24 * 3 / 2),
    );
    workshop
}

/// Runs the program with the stand-ins.
fn run(workshop: &TestFolder, arguments: &[&str]) -> ProcessResult {
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = workshop.path("bin");
    let colmap = workshop.path("colmap");
    let arguments = [arguments, &["--colmap", colmap.to_str().expect("a name")]].concat();
    let mut command = workshop.command(&arguments);
    let output = command.env("PATH", format!("{}:{path}", bin.display())).output().expect("it starts");
    ProcessResult::new(&arguments, output)
}

fn succeed(workshop: &TestFolder, arguments: &[&str]) -> ProcessResult {
    let finished = run(workshop, arguments);
    assert_eq!(finished.code, 0, "{finished:?}");
    finished
}

/// Runs a command that must be refused with these words and leave `folder` unchanged.
fn refused(workshop: &TestFolder, folder: &str, arguments: &[&str], words: &[&str]) {
    let before = tree(&workshop.path(folder));
    let finished = run(workshop, arguments);
    assert_eq!(finished.code, 2, "{finished:?}");
    let line = finished.stderr.lines().last().unwrap_or_default().to_owned();
    assert!(words.iter().all(|word| line.contains(word)), "{finished:?}");
    assert!(finished.stdout.is_empty(), "{finished:?}");
    let after = tree(&workshop.path(folder));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "{arguments:?}");
    assert!(before == after, "{arguments:?}: a file has changed");
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = if folder.is_dir() { files_below(folder) } else { Vec::new() };
    files.into_iter().map(|(name, bytes)| (name.display().to_string(), bytes)).collect()
}

fn calls(workshop: &TestFolder, of: &str) -> usize {
    let text = std::fs::read_to_string(workshop.path("calls")).unwrap_or_default();
    text.lines().filter(|line| line.starts_with(of)).count()
}

/// The stages that `--json` reports on stderr. Their times are in order.
fn stages(finished: &ProcessResult) -> Vec<String> {
    let lines = finished.stderr.lines().filter_map(|line| serde_json::from_str(line).ok());
    let events: Vec<serde_json::Value> = lines.collect();
    let times: Vec<f64> = events.iter().map(|event| event["at_seconds"].as_f64().expect("a time")).collect();
    assert!(times.is_sorted(), "{events:?}");
    let is_end = |event: &serde_json::Value| event["event"] == "end";
    assert!(events.iter().all(|event| event["seconds"].is_f64() == is_end(event)), "{events:?}");
    let word = |event: &serde_json::Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    events.iter().map(|event| format!("{} {}", word(event, "event"), word(event, "stage"))).collect()
}

/// The lines of a result without times, and with a fixed name for the folder.
fn without_times(finished: &ProcessResult, folder: &str) -> Vec<String> {
    let text = finished.stdout.replace(&format!("{folder}/"), "FOLDER/");
    let lines = text.lines().filter(|line| !line.starts_with("time") && !line.starts_with("CPU time"));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_run_that_was_interrupted_goes_on_however_its_paths_are_spelled() {
    let workshop = workshop();
    let steps = ["--steps", "2000", "--max-splats", "300"];
    let whole = succeed(&workshop, &[&["run", "photos", "-o", "whole"][..], &steps].concat());
    let here = workshop.path("");
    let here = std::fs::canonicalize(here).expect("a folder");
    let absolute = |name: &str| here.join(name).display().to_string();

    let arguments = [&["run", "photos", "-o", "out", "--colmap", "./colmap"][..], &steps].concat();
    let child = workshop.start(&arguments);
    let log = workshop.path("out/run/metrics.jsonl");
    wait_until("it trains", || std::fs::metadata(&log).is_ok_and(|about| about.len() > 0));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the signal is sent");
    let stopped = ProcessResult::new(&arguments, child.wait_with_output().expect("wait"));
    assert_eq!(stopped.code, 143, "{stopped:?}");
    let saved = crate::support::checkpoints(&workshop.path("out/run"));
    assert!(saved.last().is_some_and(|step| *step > 0 && *step < 2000), "{saved:?}");

    let finished = succeed(&workshop, &[&["run", "./photos/", "-o", "./out/"][..], &steps].concat());
    assert!(finished.stderr.contains(" of 2,000 done"), "{finished:?}");
    assert!(workshop.read("out/run/splats.ply") == workshop.read("whole/run/splats.ply"));
    assert_eq!(without_times(&finished, "./out"), without_times(&whole, "whole"));

    // After the end, the same command prints the same result, also from the root folder, and does not run COLMAP again.
    let asked = calls(&workshop, "colmap");
    for (photos, out) in [("photos".to_owned(), "out".to_owned()), (absolute("photos"), absolute("out"))] {
        let again = succeed(&workshop, &[&["run", &photos, "-o", &out][..], &steps].concat());
        assert!(again.stderr.contains("the training is already finished"), "{again:?}");
        let told = again.stdout.replace(&format!("{out}/"), "./out/");
        assert_eq!(told, finished.stdout);
        let json = succeed(&workshop, &[&["run", &photos, "-o", &out, "--json"][..], &steps].concat());
        let info = workshop.succeed(&["info", "out/run", "--json"]).json();
        assert!(contains_result(&json.json(), &info), "{json:?} {info}");
    }
    assert_eq!(calls(&workshop, "colmap"), asked);
}

#[test]
fn another_option_is_named_and_replaces_nothing_without_force() {
    let workshop = workshop();
    succeed(&workshop, &["run", "photos", "-o", "out", "--steps", "20"]);
    let asked = calls(&workshop, "colmap");
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--steps", "30"], &["steps = 20 (given: 30)", "--force", "out/run/config.toml"]),
        // Options that were given then and are missing now count as differences.
        (&[], &["steps = 20 (given: "]),
        (&["--steps", "20", "--seed", "1"], &["seed = 0 (given: 1)"]),
        (
            &["--steps", "20", "--camera-model", "OPENCV"],
            &["camera-model = \"SIMPLE_RADIAL\" (given: \"OPENCV\")"],
        ),
        (&["--steps", "20", "--sfm-seed", "3"], &["sfm-seed = 0 (given: 3)", "--force"]),
    ];
    for (options, words) in cases {
        refused(&workshop, "out", &[&["run", "photos", "-o", "out"][..], options].concat(), words);
    }
    // With one more image the model differs.
    std::fs::copy(workshop.path("photos/view_000.png"), workshop.path("photos/view_900.png"))
        .expect("a copy");
    let words = ["photographs = 8 (given: 9, 1 new: \"view_900.png\")"];
    refused(&workshop, "out", &["run", "photos", "-o", "out", "--steps", "20"], &words);
    std::fs::remove_file(workshop.path("photos/view_900.png")).expect("remove");
    assert_eq!(calls(&workshop, "colmap"), asked);

    let forced = succeed(&workshop, &["run", "photos", "-o", "out", "--steps", "30", "--force", "--json"]);
    assert_eq!(forced.json()["steps"], 30);
    // The model exists: nothing is aligned.
    assert_eq!(stages(&forced), ["begin images", "end images", "begin train", "end train"]);
    assert_eq!(calls(&workshop, "colmap"), asked, "the model is the same and is used again");
    succeed(&workshop, &["run", "photos", "-o", "out", "--steps", "30", "--sfm-seed", "3", "--force"]);
    assert!(calls(&workshop, "colmap") > asked, "another model was asked for");
}

#[test]
fn the_folder_of_a_run_stands_for_it_and_its_photographs_may_be_elsewhere() {
    let workshop = workshop();
    std::fs::write(workshop.path("photos/broken.png"), b"not a picture").expect("a file");
    let finished = run(&workshop, &["run", "photos", "-o", "out", "--steps", "20", "--json"]);
    assert_eq!(finished.code, 1, "a photograph cannot be read: {finished:?}");
    let made = finished.json();
    let left_out = made["left_out"].as_array().expect("a list");
    assert!(left_out.iter().any(|one| one["name"] == "broken.png"), "{made}");
    assert_eq!(made["unreadable"], 1);

    assert_eq!(workshop.succeed(&["info", "out", "--json"]).json()["kind"], "project");
    let scores = workshop.succeed(&["eval", "out", "--json"]).json();
    assert_eq!(scores, workshop.succeed(&["eval", "out/run", "--json"]).json());
    workshop.succeed(&["convert", "out", "a.spz"]);
    workshop.succeed(&["render", "out"]);
    workshop.succeed(&["report", "out"]);
    assert!(workshop.path("out/run/render").is_dir() && !workshop.path("out/render").exists());
    assert!(!workshop.path("out/eval").exists() && !workshop.path("out/report.html").exists());
    let resumed = workshop.run(&["train", "--resume", "out"]);
    assert!(!resumed.stderr.contains("holds no run"), "{resumed:?}");

    std::fs::rename(workshop.path("photos"), workshop.path("moved")).expect("rename");
    let lost = workshop.run(&["eval", "out"]);
    assert!(lost.code == 2 && lost.stderr.contains("name it with --images"), "{lost:?}");
    assert_eq!(workshop.succeed(&["eval", "out", "--images", "moved", "--json"]).json(), scores);
    workshop.succeed(&["render", "out", "--split", "all", "--images", "moved", "-o", "views"]);
    let page = workshop.succeed(&["report", "out", "--splats", "--images", "moved", "-o", "page.html"]);
    assert!(!page.stderr.contains("has no cameras"), "{page:?}");

    // A model of another program is used again, and a line says so.
    std::fs::rename(workshop.path("out"), workshop.path("other")).expect("rename");
    std::fs::remove_file(workshop.path("other/sparse/0/.gausset")).expect("the mark");
    std::fs::remove_dir_all(workshop.path("other/run")).expect("the run");
    let again = run(&workshop, &["run", "moved", "-o", "other", "--steps", "5"]);
    assert!(again.code == 1 && again.stderr.contains("the model of another program is used"), "{again:?}");
}

/// The state after a kill during the evaluation: splats and a folder `eval`, but no report and no last log line.
#[test]
fn a_run_that_was_killed_in_its_evaluation_is_not_finished_and_completes_it() {
    let workshop = workshop();
    let same = ["run", "photos", "-o", "out", "--steps", "20", "--json"];
    let whole = succeed(&workshop, &same);
    let begun = ["begin images", "end images", "begin align", "end align", "begin train", "end train"];
    assert_eq!(stages(&whole), begun);
    let whole = whole.json();
    std::fs::remove_file(workshop.path("out/run/eval/metrics.json")).expect("the report");
    std::fs::remove_file(workshop.path("out/run/eval/contact_sheet.png")).expect("the sheet");
    let log = String::from_utf8(workshop.read("out/run/metrics.jsonl")).expect("text");
    let kept: String = log.lines().filter(|l| !l.contains("finished")).map(|l| format!("{l}\n")).collect();
    assert!(kept.len() < log.len());
    std::fs::write(workshop.path("out/run/metrics.jsonl"), kept).expect("write");
    let completed = succeed(&workshop, &same);
    assert!(!completed.stderr.contains("already finished"), "{completed:?}");
    assert_eq!((&completed.json()["psnr"], &completed.json()["steps"]), (&whole["psnr"], &whole["steps"]));
    for file in ["metrics.json", "contact_sheet.png"] {
        assert!(workshop.path("out/run/eval").join(file).is_file(), "{file}");
    }
    assert!(succeed(&workshop, &same).stderr.contains("already finished"));
}

#[test]
fn frames_of_a_video_are_taken_once_and_never_put_among_other_peoples_pictures() {
    let workshop = workshop();
    let same = ["run", "walk.mp4", "-o", "out", "--steps", "10", "--json", "--select", "all"];
    let mut first = succeed(&workshop, &same).json();
    assert_eq!(calls(&workshop, "ffmpeg"), 1);
    let record: serde_json::Value =
        serde_json::from_slice(&workshop.read("out/frames/frames.json")).expect("a record");
    assert_eq!((&record["video"], &record["select"]), (&"walk.mp4".into(), &"all".into()), "{record}");
    let again = succeed(&workshop, &[&["run", "./walk.mp4", "-o", "./out"], &same[4..]].concat());
    // The folder is told as it was given.
    assert_eq!((&first["folder"], &again.json()["folder"]), (&"out".into(), &"./out".into()));
    first["folder"] = "./out".into();
    assert_eq!((again.json(), calls(&workshop, "ffmpeg")), (first, 1));
    refused(
        &workshop,
        "out",
        &[&same[..], &["--max-frames", "4"]].concat(),
        &["max-frames = 300 (given: 4)", "--force"],
    );
    // Another video of the same name.
    std::fs::write(workshop.path("walk.mp4"), b"another video").expect("a file");
    refused(&workshop, "out", &same, &["video-bytes = 7 (given: 13)"]);
    std::fs::write(workshop.path("out/frames/left.jpg"), b"x").expect("a file");
    succeed(&workshop, &[&same[..], &["--force"]].concat());
    assert_eq!(calls(&workshop, "ffmpeg"), 2);
    assert!(!workshop.path("out/frames/left.jpg").exists(), "frames are replaced as a whole");
    let left: Vec<_> =
        tree(&workshop.path("out")).into_keys().filter(|name| name.starts_with(".tmp-")).collect();
    assert!(left.is_empty(), "{left:?}");

    // Frames without the ownership marker are treated as images of the user.
    for folder in ["mine/frames/deep", "empty/frames"] {
        std::fs::create_dir_all(workshop.path(folder)).expect("a folder");
    }
    std::fs::write(workshop.path("mine/frames/deep/notes.txt"), b"mine").expect("a file");
    for command in ["run", "align"] {
        for (folder, found) in [("mine", "found deep"), ("empty", "found no marker")] {
            for force in [&[][..], &["--force"]] {
                let arguments = [&[command, "walk.mp4", "-o", folder][..], force].concat();
                refused(&workshop, folder, &arguments, &["frames: folder: was not made by gausset", found]);
            }
        }
    }
    assert_eq!(calls(&workshop, "ffmpeg"), 2, "refused before any work");
}

#[test]
fn a_list_of_pairs_goes_to_colmap_and_another_choice_is_another_alignment() {
    let workshop = workshop();
    let write = |text: &str| std::fs::write(workshop.path("pairs.txt"), text).expect("a file");
    let align = ["align", "photos", "-o", "out", "--pairs", "pairs.txt"];
    for (text, words) in [
        ("# none\n", ["pairs.txt: pairs: none", "NAME1 NAME2"]),
        ("view_000.png view_001.png\nview_002.png\n", ["pairs.txt: line 2: one name", "`view_002.png`"]),
        ("view_000.png other.png\n", ["pairs.txt: line 1: no image `other.png`", "two names"]),
    ] {
        write(text);
        refused(&workshop, "out", &align, &words);
    }
    assert_eq!(calls(&workshop, "colmap"), 0, "refused before any work");
    write("view_001.png view_000.png\nview_001.png view_002.png\n");
    succeed(&workshop, &align);
    assert_eq!(calls(&workshop, "colmap matches_importer"), 1);
    assert_eq!(calls(&workshop, "colmap exhaustive_matcher"), 0);
    // The same pairs in another order are the same choice. `run` uses that model.
    write("view_002.png view_001.png\nview_000.png view_001.png\n");
    let run = ["run", "photos", "-o", "out", "--steps", "2", "--max-splats", "300"];
    succeed(&workshop, &[&run[..], &["--pairs", "pairs.txt"]].concat());
    assert_eq!(calls(&workshop, "colmap matches_importer"), 1);
    for (pairs, words) in [
        ("all", ["pairs = \"2 listed (", "(given: \"all\")"]),
        ("auto", ["pairs = \"2 listed (", "(given: nothing)"]),
    ] {
        refused(&workshop, "out", &[&run[..], &["--pairs", pairs]].concat(), &words);
    }
}

#[test]
fn an_alignment_leaves_the_files_of_others_where_they_are() {
    let workshop = workshop();
    for (name, bytes) in [
        ("proj/sfm/thesis.txt", "mine"),
        ("proj/.tmp-1-sfm/thesis.txt", "mine"),
        ("proj/frames/holiday.jpg", "mine"),
        ("proj/sparse/1/cameras.bin", "mine"),
        ("proj/sparse/0/cameras.bin", "my cameras"),
        ("proj/sparse/0/notes.txt", "mine"),
    ] {
        let path = workshop.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }
    for command in ["align", "run"] {
        let words = ["proj/sparse/0: output: holds files that gausset did not write", "found cameras.bin"];
        refused(&workshop, "proj", &[command, "photos", "-o", "proj"], &words);
    }
    assert_eq!(calls(&workshop, "colmap"), 0, "refused before any work");
    let before = tree(&workshop.path("proj"));
    let aligned = succeed(&workshop, &["align", "photos", "-o", "proj", "--force", "--json"]);
    assert_eq!(aligned.json()["registered"], 8);
    let after = tree(&workshop.path("proj"));
    for (name, bytes) in &before {
        // With --force only the files of the model are replaced.
        assert!(after.get(name) == Some(bytes) || name == "sparse/0/cameras.bin", "{name}");
    }
    let new: Vec<&str> =
        after.keys().filter(|name| !before.contains_key(*name)).map(String::as_str).collect();
    assert_eq!(new, ["sparse/0/images.bin", "sparse/0/points3D.bin"]);

    // In a folder created by Gausset the same command may run again.
    succeed(&workshop, &["align", "photos", "-o", "ours"]);
    // A finished alignment is kept; only --force replaces it, also by one with other options.
    let asked = calls(&workshop, "colmap");
    let again = succeed(&workshop, &["align", "photos", "-o", "ours"]);
    assert!(again.stderr.contains("already finished") && again.stdout.contains('8'), "{again:?}");
    let other = ["align", "photos", "-o", "ours", "--single-camera"];
    refused(&workshop, "ours", &other, &["single-camera = false (given: true)", "--force"]);
    assert_eq!(calls(&workshop, "colmap"), asked);
    succeed(&workshop, &["align", "photos", "-o", "ours", "--force"]);
    assert!(calls(&workshop, "colmap") > asked);
    let names: Vec<String> = tree(&workshop.path("ours")).into_keys().collect();
    let expected = [".gausset", "align.json", "cameras.bin", "images.bin", "points3D.bin"];
    assert_eq!(names, expected.map(|name| format!("sparse/0/{name}")));

    // The record says what became of each photograph.
    let record = std::fs::read(workshop.path("ours/sparse/0/align.json")).expect("the record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let pictures = record["result"]["pictures"].as_array().expect("a list");
    assert_eq!(pictures.len(), record["photographs"].as_array().expect("a list").len());
    assert!(pictures.iter().all(|picture| picture["registered"] == true), "{record}");
    assert!(record["result"]["cameras"][0]["focal_px"].as_f64() > Some(0.0), "{record}");
}

#[test]
fn a_model_that_was_not_finished_is_made_again() {
    let workshop = workshop();
    let same = ["run", "photos", "-o", "out", "--steps", "10"];
    succeed(&workshop, &same);
    let asked = calls(&workshop, "colmap");
    // The state after a kill between the files of a new model.
    std::fs::remove_file(workshop.path("out/sparse/0/align.json")).expect("the record");
    assert!(
        succeed(&workshop, &same).stderr.contains("already finished"),
        "the same model, the same training"
    );
    assert!(calls(&workshop, "colmap") > asked);
}

#[cfg(target_os = "linux")]
#[test]
fn an_alignment_that_is_killed_keeps_its_features() {
    let workshop = workshop();
    let here = workshop.path("");
    // Features are extracted into the database; matching hangs until the file `again` exists.
    script(
        &workshop.path("colmap"),
        &format!(
            "if [ \"$1\" = help ]; then echo 'COLMAP 3.13.0 -- Structure-from-Motion'; exit 0; fi
cd {here}
for word; do
  case \"$last\" in --database_path) database=$word;; --output_path) models=$word;; esac
  last=$word
done
case \"$1\" in
  feature_extractor) if [ -f \"$database\" ]; then echo kept; else echo new; fi >> features; echo 1 >> \"$database\";;
  *_matcher) [ -f again ] || {{ touch matching; exec sleep 97; }};;
  mapper) mkdir -p \"$models/0\"; cp model/* \"$models/0\";;
esac",
            here = here.display()
        ),
    );
    let features = || String::from_utf8(workshop.read("features")).expect("text");
    let colmap = workshop.path("colmap");
    let colmap = colmap.to_str().expect("a name");
    let mut child = workshop.start(&["align", "photos", "-o", "out", "--colmap", colmap]);
    wait_until("features are being matched", || workshop.path("matching").exists());
    child.kill().expect("kill");
    assert_eq!(child.wait().expect("wait").code(), None, "killed by a signal");
    assert!(!workshop.path("out/sparse/0/images.bin").exists());

    std::fs::write(workshop.path("again"), "").expect("a file");
    succeed(&workshop, &["align", "photos", "-o", "out"]);
    assert_eq!(features(), "new\nkept\n");
    // The result is that of an alignment without interruption, and nothing else is left.
    succeed(&workshop, &["align", "photos", "-o", "whole"]);
    assert_eq!(features(), "new\nkept\nnew\n");
    let [resumed, whole] = ["out", "whole"].map(|folder| tree(&workshop.path(folder)));
    assert_eq!(resumed.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    assert!(workshop.read("out/sparse/0/images.bin") == workshop.read("whole/sparse/0/images.bin"));
}

#[test]
fn names_of_photographs_are_never_words_of_a_command() {
    use std::os::unix::ffi::OsStrExt;
    let workshop = workshop();
    for name in ["--help.png", "-o.png", "$(touch pwned).png", "a b;c.png"] {
        std::fs::copy(workshop.path("photos/view_000.png"), workshop.path("photos").join(name))
            .expect("a copy");
    }
    // The stand-in registers eight of them: exit code 1, and the others are listed.
    let aligned = run(&workshop, &["align", "photos", "-o", "out", "--json"]);
    assert_eq!(aligned.code, 1, "{aligned:?}");
    assert_eq!(aligned.json()["unregistered"].as_array().map(Vec::len), Some(4));
    let told = String::from_utf8(workshop.read("calls")).expect("text");
    assert!(!["--help.png", "-o.png", "touch", "a b"].iter().any(|word| told.contains(word)), "{told}");
    assert!(!workshop.path("pwned").exists());
    for name in [&b"photos/x\xff.png"[..], b"photos/x\n--help.png"] {
        let path = workshop.path("").join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(&path, b"x").expect("a file");
        refused(&workshop, "out", &["align", "photos", "-o", "out"], &["name is not plain text"]);
        std::fs::remove_file(path).expect("remove");
    }
    let words = ["--camera-model", "expected one of SIMPLE_PINHOLE"];
    refused(&workshop, "out", &["align", "photos", "-o", "out", "--camera-model=--help"], &words);
}

#[test]
fn a_result_below_a_required_minimum_ends_with_1_and_stays() {
    let workshop = workshop();
    let same = ["run", "photos", "-o", "out", "--steps", "10"];
    succeed(&workshop, &[&same[..], &["--min-registered", "8", "--min-psnr", "0.1"]].concat());
    for (minimum, line) in [(["--min-registered", "9"], "registered: 8 of 8"), (["--min-psnr", "90"], "PSNR")]
    {
        let below = run(&workshop, &[&same[..], &minimum].concat());
        assert!(below.code == 1 && below.stderr.contains(line), "{below:?}");
        assert!(below.stderr.contains(minimum[0]), "{below:?}");
        assert!(workshop.path("out/run/splats.ply").is_file());
    }
    let aligned = run(&workshop, &["align", "photos", "-o", "out", "--min-registered", "9"]);
    assert!(aligned.code == 1 && aligned.stderr.contains("registered: 8 of 8"), "{aligned:?}");
}

#[test]
fn a_folder_in_use_is_not_touched() {
    let workshop = workshop();
    let mut child =
        workshop.start(&["run", "photos", "-o", "out", "--colmap", "./colmap", "--steps", "1000000"]);
    wait_until("the training has begun", || workshop.path("out/run/metrics.jsonl").is_file());
    for arguments in [["align", "photos", "-o", "out"], ["run", "photos", "-o", "out"]] {
        let second = run(&workshop, &[&arguments[..], &["--force"]].concat());
        assert!(second.code == 2 && second.stderr.contains("in use"), "{second:?}");
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
}

#[test]
fn heic_photographs_are_aligned_as_copies_or_named_with_what_to_do() {
    let workshop = workshop();
    std::fs::create_dir(workshop.path("phone")).expect("a folder");
    let photograph = gausset_testkit::testdata_dir().join("heif/portrait.heic");
    for name in ["a.heic", "b.HEIC", "c.heic"] {
        std::fs::copy(&photograph, workshop.path("phone").join(name)).expect("a copy");
    }
    // No program decodes them.
    script(&workshop.path("bin/ffmpeg"), "exit 1");
    let arguments = ["align", "phone", "-o", "out", "--colmap", "./colmap"];
    let output = workshop.command(&arguments).env("PATH", workshop.path("bin")).output().expect("it starts");
    let refused = ProcessResult::new(&arguments, output);
    let line = "phone: photographs: none found (expected JPEG, PNG, TIFF or WebP files); 3 HEIC files left out: convert them";
    assert!(refused.code == 2 && refused.stderr.contains(line), "{refused:?}");
    assert!(!workshop.path("out").exists());
    // ffmpeg decodes them. The stand-in of COLMAP gives a model of other photographs.
    let image = format!("printf 'P6\\n128 96\\n255\\n'; head -c {} /dev/zero", 3 * 128 * 96);
    script(&workshop.path("bin/ffmpeg"), &image);
    let finished = run(&workshop, &["align", "phone", "-o", "out"]);
    let line = "3 of 3 photographs are HEIC; aligned as upright JPEG copies";
    assert!(finished.stderr.contains(line), "{finished:?}");
    for name in ["a.heic.jpg", "b.HEIC.jpg", "c.heic.jpg"] {
        let header = gausset_io::image::read_header(&workshop.path("out/images").join(name)).expect(name);
        assert_eq!([header.width, header.height, u32::from(header.orientation)], [96, 128, 1]);
    }
    assert!(calls(&workshop, "colmap") > 0);
}
