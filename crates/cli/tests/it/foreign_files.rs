//! Every command in a folder full of files not created by Gausset, with relative and with absolute paths. It may work
//! or refuse, but it must end, and must not change any name, byte, mode or link of these files.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use gausset_compute::Pool;
use gausset_scenes::{tiny, write_dataset};

use crate::support::{TIMEOUT, TestFolder, script, write_walk};

/// Command lines of each command: `IN` is the folder with inputs, `HERE` the folder full of other files, in which the
/// program runs. Commands that only write to stdout are run with --help.
pub(crate) const CASES: &[&[&str]] = &[
    &["demo", "--size", "small", "--steps", "1", "-o", "HERE"],
    &["train", "IN/data", "-o", "HERE", "--steps", "2"],
    &["train", "IN/data", "-o", "HERE/results", "--steps", "2"],
    &["train", "IN/data", "-o", "HERE/fresh", "--steps", "2", "--profile", "--log", "tensorboard"],
    &["train", "--resume", "HERE"],
    &["eval", "IN/run", "-o", "HERE"],
    &["eval", "IN/run", "-o", "HERE/results"],
    &["eval", "HERE"],
    &["render", "IN/run", "--data", "IN/data", "-o", "HERE", "--alpha", "--depth", "npy"],
    &["render", "IN/run/splats.ply", "--orbit", "2", "--size", "16x16", "-o", "HERE", "--depth", "png"],
    &["render", "HERE", "--orbit", "2"],
    &["report", "HERE"],
    &["report", "IN/run"],
    &["report", "IN/run", "-o", "HERE/report.html", "--splats"],
    &["info", "HERE"],
    &["view", "IN/samples.csv", "--no-open"],
    &["train", "IN/data", "--steps", "2"],
    &["convert", "IN/run/splats.ply", "HERE/splats.ply"],
    &["convert", "IN/run", "HERE/splats.ply", "--crop-to-cameras", "2"],
    &["convert", "IN/run", "HERE/scene.html"],
    &["clean", "IN/run", "-o", "HERE/splats.ply"],
    &["align", "IN/data/images", "-o", "HERE", "--colmap", "IN/colmap"],
    &["align", "IN/clip.mp4", "-o", "HERE", "--colmap", "IN/colmap", "--fps", "4"],
    &["run", "IN/data/images", "-o", "HERE", "--colmap", "IN/colmap", "--steps", "2"],
    &["run", "IN/clip.mp4", "-o", "HERE", "--colmap", "IN/colmap", "--steps", "2", "--fps", "4"],
    &["mask", "IN/walk", "-o", "HERE", "--model", "IN/red.onnx"],
    &["mask", "IN/walk", "-o", "HERE/masks", "--model", "IN/red.onnx", "--modes", "both", "--empty-masks"],
    &["mask", "HERE", "-o", "HERE/fresh", "--model", "HERE/notes.txt"],
    &["mask", "IN/clip.mp4", "-o", "HERE", "--model", "IN/red.onnx"],
    &["mask", "IN/walk", "-o", "HERE/profiled", "--model", "IN/red.onnx", "--profile", "HERE"],
    &["mask", "IN/split", "-o", "HERE", "--keep-box", "0,0,0,1,1,1", "--poses", "HERE/notes.txt"],
    &["pano", "split", "IN/walk", "-o", "HERE", "--size", "32"],
    &["pano", "split", "IN/walk", "-o", "HERE", "--size", "32", "--naming", "flat"],
    &["pano", "align", "HERE", "--colmap", "IN/colmap"],
    &["pano", "align", "HERE/split", "--colmap", "IN/colmap"],
    &[
        "pano",
        "align",
        "HERE/split",
        "--colmap",
        "IN/colmap",
        "--poses",
        "IN/poses.csv",
        "--track",
        "IN/track.csv",
    ],
    &["pano", "align", "HERE/split", "--colmap", "IN/colmap", "--poses", "HERE", "--matches", "HERE"],
    &["pano", "align", "HERE/split", "--aligner", "own", "--track", "HERE/pipe"],
    &["pano", "run", "IN/walk", "-o", "HERE", "--colmap", "IN/colmap", "--steps", "2", "--train-size", "32"],
    &["pano", "preview", "IN/walk/p0.jpg", "-o", "HERE/preview.png"],
    &["pano", "split", "IN/walk", "-o", "HERE", "--size", "32", "--look", "exposure=1"],
    &["pano", "split", "IN/walk", "-o", "HERE/profiled", "--size", "32", "--profile", "HERE"],
    &["pano", "layouts", "ring8"],
    &["pano", "frames", "IN/clip.mp4", "-o", "HERE/frames.txt", "--sheet", "HERE/preview.png"],
    &["pano", "convert", "IN/walk", "HERE", "--to", "cross", "--size", "16"],
    &["pano", "convert", "IN/walk/p0.jpg", "HERE/photo.jpg", "--to", "strip", "--size", "16"],
    &["pano", "convert", "IN/walk/p0.jpg", "HERE/faces", "--to", "faces", "--size", "16"],
    &["pano", "calibrate", "IN/walk", "-o", "HERE/poses.json"],
    &["pano", "masks", "HERE", "-o", "HERE", "--invert"],
    &["pano", "masks", "IN/data/images", "HERE", "-o", "HERE/preview.png", "--combine", "subtract"],
    &["pano", "preview", "IN/walk/p0.jpg"],
    &["pano", "export", "HERE/split", "-o", "HERE"],
    &["pano", "export", "HERE/split", "--format", "transforms", "-o", "HERE/transforms.json"],
    &["pano", "export", "HERE/split", "--format", "xmp"],
    &["pano", "export", "HERE/split", "--format", "metashape", "-o", "HERE", "--masks", "postshot"],
    &["pano", "compare", "HERE/split", "HERE", "--csv", "HERE/values.csv"],
    &["pano", "compare", "IN/data", "IN/data", "--csv", "HERE/values.csv"],
    &["field", "fit", "IN/samples.csv", "-o", "HERE/field.safetensors", "-n", "2", "--steps", "2"],
    &["field", "query", "IN/field.safetensors", "IN/points.csv", "-o", "HERE/values.csv"],
    &["field", "slice", "IN/field.safetensors", "-o", "HERE/slice.png"],
    &["field", "mip", "IN/field.safetensors", "-o", "HERE/mip.png"],
    &["field", "voxelize", "IN/field.safetensors", "-o", "HERE/volume.npy", "--shape", "4,4,4"],
    &["field", "export", "IN/field.safetensors", "-o", "HERE/splats.ply"],
    &["field", "info", "IN/field.safetensors"],
    &["bench", "train", "--splats", "500", "--steps", "1", "--threads", "1", "--profile", "HERE"],
    &["bench", "raster", "--splats", "500", "--steps", "1", "--threads", "1", "--profile", "HERE"],
    &["bench", "field", "--help"],
    &["bench", "pano", "--width", "128", "--frames", "1", "--passes", "1", "--keep", "HERE"],
    &["profile", "show", "HERE"],
    &["profile", "diff", "HERE", "HERE/profile.json"],
    &["completions", "bash"],
    &["doctor"],
    &["man", "-o", "HERE"],
];

/// The folder with inputs.
pub(crate) fn write_inputs(workshop: &TestFolder) {
    let root = workshop.path("in");
    fs::create_dir_all(root.join("walk")).expect("a folder");
    write_dataset(&tiny(), &root.join("data"), &Pool::new(1), &mut |_, _| {}).expect("the tiny data set");
    write_walk(&root.join("walk"), 2);
    fs::write(root.join("red.onnx"), gausset_testkit::onnx::TestNetwork::red_segmenter(32).bytes())
        .expect("a model");
    let samples: String = (0..64).map(|k| format!("{},{},{},{}\n", k % 4, k / 4 % 4, k / 16, k)).collect();
    fs::write(root.join("samples.csv"), "x,y,z,value\n".to_owned() + &samples).expect("samples");
    fs::write(root.join("points.csv"), "1,1,1\n").expect("points");
    let poses = "name,x,y,z,qw,qx,qy,qz\np0,0,0,0,1,0,0,0\np1,1,0,0,1,0,0,0\n";
    fs::write(root.join("poses.csv"), poses).expect("poses");
    fs::write(root.join("track.csv"), "t,x,y\n0,0,0\n1,1,0\n").expect("a track");
    // The COLMAP model of the images of the dataset.
    let mapper = format!(
        "if [ \"$1\" = help ]; then echo 'COLMAP 3.13.0 -- Structure-from-Motion'; exit 0; fi\n\
         [ \"$1\" = mapper ] || exit 0\nwhile [ \"$1\" != --output_path ]; do shift; done\n\
         mkdir -p \"$2/0\" && cp '{}'/* \"$2/0\"",
        root.join("data/sparse/0").display()
    );
    script(&root.join("colmap"), &mapper);
    workshop.succeed(&["train", "in/data", "-o", "in/run", "--steps", "2", "-q"]);
    workshop.succeed(&[
        "field",
        "fit",
        "in/samples.csv",
        "-o",
        "in/field.safetensors",
        "-n",
        "2",
        "--steps",
        "2",
        "-q",
    ]);
    workshop.succeed(&["pano", "split", "in/walk", "-o", "in/split", "--size", "32", "-q"]);
    let clip = ["-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=4:duration=1", "-y"];
    let mut ffmpeg = std::process::Command::new("ffmpeg");
    if !ffmpeg.args(clip).arg(root.join("clip.mp4")).status().is_ok_and(|status| status.success()) {
        gausset_testkit::skip_for_tool("strangers: videos in folders of others", "ffmpeg is not installed");
        fs::write(root.join("clip.mp4"), "no video").expect("a file");
    }
}

/// Other files with names that no command writes.
const QUIET: &[&str] = &[
    "frames/IMG_1.jpg",
    "frames/mine/notes.txt",
    "sfm/thesis.txt",
    "eval/holiday.png",
    "eval/train/notes.txt",
    "checkpoints/best.pt",
    "cameras/notes.txt",
    "images/notes.txt",
    "masks/notes.txt",
    "sparse/notes.txt",
    "data/notes.txt",
    "run/notes.txt",
    "align/notes.txt",
    "train/notes.txt",
    ".tmp-x",
    ".tmp-notes",
    ".tmp-1-0-notes",
    "eval/.tmp-7-7-notes",
    "checkpoints/.tmp-7-7-notes",
    ".tmp-data/notes.txt",
    ".frames.part/notes.txt",
    "notes.txt",
    "render/notes.txt",
    "split/sfm/thesis.txt",
    "results/notes.txt",
];

/// Other files with names that commands write.
const COLLIDING: &[&str] = &[
    "config.toml",
    "splats.ply",
    "metrics.jsonl",
    "metrics.json",
    "contact_sheet.png",
    "profile.json",
    "profile.csv",
    "trace.json",
    "crash.txt",
    "report.html",
    "events.out.tfevents.gausset",
    "scene.html",
    "eval/metrics.json",
    "eval/contact_sheet.png",
    "eval/0000_view_000.png",
    "checkpoints/step_000001.ckpt",
    "cameras/cameras.bin",
    "view_000.png",
    "view_000_alpha.png",
    "view_004_depth.npy",
    "orbit_0001.png",
    "orbit_0000_depth.png",
    "images/frame_00000_cam_00.jpg",
    "images/view00/p0.jpg",
    "images/p0/view00.jpg",
    "images/p0_view00.jpg",
    "masks/view00/p0.jpg.png",
    "sparse/0/cameras.bin",
    "sparse/0/images.bin",
    "sparse/0/points3D.bin",
    "sparse/0/thesis.txt",
    "rig_config.json",
    "frames/frame_000001.jpg",
    "frames.txt",
    "preview.png",
    "transforms.json",
    "poses.json",
    "field.safetensors",
    "field.fit.safetensors",
    "values.csv",
    "slice.png",
    "mip.png",
    "volume.npy",
    "gausset.1",
    "gausset-train.1",
    "split/sparse/0/images.bin",
    "split/poses.json",
    "pano.jsonl",
    "data/demo.json",
    "run/config.toml",
    "run/splats.ply",
    "out/p0.jpg",
    "results/metrics.json",
    "results/eval/metrics.json",
];

/// Names that commands write, as links that point outside the folder.
const LINKS: &[(&str, &str)] = &[
    ("eval", "folder"),
    ("images", "folder"),
    ("masks", "folder"),
    ("sparse", "folder"),
    ("frames", "folder"),
    ("sfm", "folder"),
    ("checkpoints", "folder"),
    ("cameras", "folder"),
    ("render", "folder"),
    ("data", "folder"),
    ("run", "folder"),
    ("align", "folder"),
    ("train", "folder"),
    (".tmp-data", "folder"),
    ("splats.ply", "thesis.txt"),
    ("metrics.jsonl", "nothing"),
    ("metrics.json", "nothing"),
    ("contact_sheet.png", "thesis.txt"),
    ("profile.json", "nothing"),
    ("report.html", "thesis.txt"),
    ("events.out.tfevents.gausset", "thesis.txt"),
    ("scene.html", "nothing"),
    ("view_000.png", "nothing"),
    ("orbit_0001.png", "nothing"),
    ("orbit_0000_depth.png", "thesis.txt"),
    ("preview.png", "nothing"),
    ("transforms.json", "thesis.txt"),
    ("rig_config.json", "nothing"),
    ("pano.json", "nothing"),
    ("pano.jsonl", "nothing"),
    ("values.csv", "nothing"),
    ("slice.png", "nothing"),
    ("mip.png", "nothing"),
    ("volume.npy", "nothing"),
    ("gausset.1", "nothing"),
    ("field.safetensors", "nothing"),
    ("split/sfm", "folder"),
    ("split/sparse", "folder"),
    ("split/poses.json", "nothing"),
    ("poses.json", "nothing"),
    ("results/eval", "folder"),
    ("results/contact_sheet.png", "thesis.txt"),
    (".tmp-9-9-link", "thesis.txt"),
];

/// Kinds of other files in the folder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FileSet {
    /// Files with unrelated names.
    Quiet,
    /// Files whose names commands write.
    Colliding,
    /// The same with a lock file.
    Locked,
    /// Links that point outside, and pipes.
    Links,
}

impl FileSet {
    fn make(self, workshop: &TestFolder) {
        let [here, outside] = ["here", "outside"].map(|name| workshop.path(name));
        for path in [&here, &outside] {
            let _ = fs::remove_dir_all(path);
        }
        fs::create_dir_all(outside.join("folder")).expect("a folder");
        fs::write(outside.join("thesis.txt"), "years of work").expect("a file");
        fs::write(outside.join("folder/holiday.png"), "sun").expect("a file");
        copy(&workshop.path("in/split"), &here.join("split"));
        let write = |names: &[&str]| {
            for name in names {
                let path = here.join(name);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                fs::write(&path, format!("mine: {name}")).expect("a file");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("permissions");
            }
        };
        symlink("../outside/nothing", here.join("dangling")).expect("a link");
        pipe(&here.join("pipe"));
        match self {
            Self::Quiet => write(QUIET),
            Self::Colliding | Self::Locked => {
                write(QUIET);
                write(COLLIDING);
                if self == Self::Locked {
                    write(&[".lock"]);
                }
            }
            Self::Links => {
                for (name, target) in LINKS {
                    let up = if name.contains('/') { "../../outside" } else { "../outside" };
                    let path = here.join(name);
                    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                    let _ = fs::remove_file(&path);
                    symlink(format!("{up}/{target}"), path).expect("a link");
                }
                // Names that are written next to images and runs.
                for name in ["trace.json", "view_004.png", "orbit_0000.png"] {
                    pipe(&here.join(name));
                }
                fs::write(here.join("config.toml"), workshop.read("in/run/config.toml")).expect("a file");
            }
        }
    }
}

fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).expect("a pipe");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// The content of a directory entry.
#[derive(Debug, PartialEq)]
enum Thing {
    Folder(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
    Special(u32),
}

/// All entries of a folder; links are not followed.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut things = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = entry.path();
            let about = fs::symlink_metadata(&path).expect("metadata");
            let mode = about.permissions().mode();
            let thing = if about.is_symlink() {
                Thing::Link(fs::read_link(&path).expect("a link"))
            } else if about.is_dir() {
                todo.push(path.clone());
                Thing::Folder(mode)
            } else if about.is_file() {
                Thing::File(mode, fs::read(&path).expect("a file"))
            } else {
                Thing::Special(mode)
            };
            things.insert(path, thing);
        }
    }
    things
}

/// Runs a command in the folder, which must end. Returns its exit code and output.
fn run(workshop: &TestFolder, arguments: &[String]) -> (i32, String) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = workshop.command(&arguments);
    command.current_dir(workshop.path("here")).stdout(Stdio::null());
    let said = workshop.path("said");
    command.stderr(fs::File::create(&said).expect("a file"));
    let mut child = command.spawn().expect("the program starts");
    let started = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status.code().unwrap_or(-1);
        }
        if started.elapsed() > 3 * TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            break -99;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    (code, String::from_utf8_lossy(&fs::read(said).expect("a file")).into_owned())
}

/// Runs all cases with one kind of files. Returns the failures, one per line.
fn damage_in(world: FileSet) -> Vec<String> {
    let workshop = TestFolder::empty();
    write_inputs(&workshop);
    let mut damage = Vec::new();
    // Only commands that take this very folder see its lock file.
    let sees_lock = |case: &[&str]| world != FileSet::Locked || case.contains(&"HERE");
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| sees_lock(case)) {
        world.make(&workshop);
        let before = [snapshot(&workshop.path("here")), snapshot(&workshop.path("outside"))];
        // The second call finds the results of the first, and spells their names differently.
        for is_absolute in [number % 2 == 1, number % 2 == 0] {
            let place =
                |name: &str| if is_absolute { workshop.path(name) } else { Path::new("..").join(name) };
            let here = if is_absolute { workshop.path("here") } else { PathBuf::from(".") };
            let spelt = |word: &&str| {
                let text = |path: PathBuf| path.to_str().expect("a name").to_owned();
                match word.split_once('/') {
                    Some(("IN", rest)) => text(place("in").join(rest)),
                    Some(("HERE", rest)) => text(here.join(rest)),
                    _ if *word == "HERE" => text(here.clone()),
                    _ => (*word).to_owned(),
                }
            };
            let arguments: Vec<String> = case.iter().map(spelt).collect();
            let (code, said) = run(&workshop, &arguments);
            let line = format!("{world:?}: {}", arguments.join(" "));
            if !(0..=2).contains(&code) || said.contains("; see --help") || said.contains("panicked") {
                damage.push(format!("{line}: ended with {code}: {said}"));
            }
            let after = [snapshot(&workshop.path("here")), snapshot(&workshop.path("outside"))];
            for (path, thing) in before.iter().flatten() {
                let now = after.iter().find_map(|things| things.get(path));
                if now != Some(thing) {
                    damage.push(format!("{line}: {}: {}", path.display(), what_became(thing, now)));
                }
            }
            for path in after[1].keys().filter(|path| !before[1].contains_key(*path)) {
                damage.push(format!("{line}: {}: was put outside", path.display()));
            }
            if damage.len() > 60 {
                return damage;
            }
        }
    }
    damage
}

fn what_became(before: &Thing, now: Option<&Thing>) -> String {
    match (before, now) {
        (_, None) => "is gone".to_owned(),
        (Thing::File(a, x), Some(Thing::File(b, y))) if x == y => format!("has mode {b:o} instead of {a:o}"),
        (Thing::File(..), Some(Thing::File(..))) => "has other content".to_owned(),
        (before, Some(now)) => format!("is {now:?} instead of {before:?}"),
    }
}

fn assert_harmless(world: FileSet) {
    let damage = damage_in(world);
    assert!(damage.is_empty(), "{} faults:\n{}", damage.len(), damage.join("\n"));
}

#[test]
fn files_that_are_in_nobodys_way_stay() {
    assert_harmless(FileSet::Quiet);
}

#[test]
fn files_whose_names_are_wanted_stay() {
    assert_harmless(FileSet::Colliding);
}

#[test]
fn files_beside_a_lock_file_stay() {
    assert_harmless(FileSet::Locked);
}

#[test]
fn links_that_lead_out_lead_nothing_out() {
    assert_harmless(FileSet::Links);
}

/// Names of the sub-commands that a help text lists.
pub(crate) fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_is_tried_in_the_folders_of_others() {
    let workshop = TestFolder::empty();
    let help = |words: &[&str]| workshop.succeed(&[words, &["--help"]].concat()).stdout;
    let commands = listed(&help(&[]));
    assert!(commands.len() >= 13, "{commands:?}");
    for command in commands {
        let below = listed(&help(&[&command]));
        let is_tried = |start: &[&str]| CASES.iter().any(|case| case.starts_with(start));
        assert!(is_tried(&[&command]), "{command}");
        for sub in below {
            assert!(is_tried(&[&command, &sub]), "{command} {sub}");
        }
    }
    // The hidden command.
    assert!(CASES.iter().any(|case| case.first() == Some(&"man")));
}
