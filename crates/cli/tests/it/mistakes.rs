//! Common mistakes: each gives one line with a hint, exit code 2, and leaves no files behind.

use std::fmt::Write;

use crate::support::{TestFolder, write_walk};

/// Command lines, one per line.
const MISTAKES: &str = "
foo
trian data -o r
train
train data --force
train -o r
train data --iterations 30000 -o r
train data --itertions 30000 -o r
train -s data -m r
train data -o r --white_background
convert
train data more -o r
train data -o r -o s
train nowhere -o r
doctor nowhere
train data/images -o r
train empty -o r
train broken -o r
train data -o held
train data -o r --stesp 5
train data -o r --steps
train data -o r --steps many
train data -o r --steps -5
train data -o r --steps 0
train data -o r --steps 99999999999999999999
train data -o r --seed 1.5
train data -o r --strategy mcm
train data -o r --alpha blend
train data -o r --panoramas cylinder
train data -o r --adam adamw
train data -o r --up w
train data -o r --background red
train data -o r --sh-degree 4
train data -o r --dssim-weight 1.5
train data -o r --lr-means nan
train data -o r --lr-means x
train data -o r --growth 0.5
train data -o r --split-largest 1.5
train data -o r --random-background=maybe
train data -o r --density-from 0.9 --density-until 0.2
train data -o r --max-memory 12XB
train data -o r --max-memory 8MiB
train data -o r --threads 1000000
train data -o r --checkpoint-every 18446744073709551615
train data -o r --device cuda
train data -o r --max-gpu-memory 4GiB
train data -o r --device gpu --max-gpu-memory x
train data -o r --simd sse
train data -o r --init nowhere.ply
train data -o r --init data/images/view_000.png
view data/images/view_000.png
convert data/images/view_000.png r.spz
train data -o r --images nowhere
train data -o r --sparse nowhere
train data -o r --config nowhere.toml
train data -o r --config unknown.toml
train data -o r --config syntax.toml
train data -o r --config value.toml
train data -o r --scene-extent 1e300
train data -o r --strategy classic --noise 3
train data -o r --strategy classic --split-largest 0.3
train data -o r --strategy classic --config growth.toml
train data -o r --grow-gradient 1e-4
train data -o r --exposure off --lr-exposure 1e-3
train data -o r --exposure maybe
train data -o r --refine-poses=false --lr-poses 1e-5
train data -o r --steps 5 --time-budget 3s
train data -o r --coarse-factor 1 --coarse-until 0.3
train data -o r --test-every 0 --eval-every 5
train data -o r --initial-splats 50
train data -o file
train data -o r --quiet --verbose
train --resume nowhere
train --resume empty
train --resume held --steps 500 --seed 3
train --resume held -o r
train --resume held --noise 3 --lr-means 0.1
train --resume held --free-space off
train --resume held --background sky
train data -o r --free-space maybe
train --resume held --init-points dense
train data -o r --init-points some
train data -o r --init-points dense --init held/splats.ply
train data -o r --init-points dense --initial-splats 50
train data -o r --init-points sfm --keep-depth
train data -o r --init-points auto --init held/splats.ply --keep-depth
train data -o r --init-points dense --max-resolution 24
eval
eval nowhere
eval data
eval held --split val
eval held --ssim uniform9
eval held --lpips nowhere.safetensors
eval held --lpips held/splats.ply
eval held --reduce 0
eval held --reduce 64
eval held --data other
eval unfinished
render held --background sky
render held --orbit 0
render held --orbit 5 --split test
render held --path nowhere.json
render held --path config.json
render held --size 640
render held --orbit -o orbit.mp4
render held --depth exr
render held --size 64x48
render held --panorama 1
render held --panorama 64 --size 64x32
render held --path config.json --data data
render loose.ply
render loose.ply --orbit --images data/images
eval loose.ply
eval loose.ply --data empty
view loose.ply --data empty
render nowhere
info
info nowhere
info empty
info cut.ply
convert held/splats.ply
convert held/splats.ply out.xyz
convert held/splats.ply out.spz --images data/images
convert held/splats.ply loose.ply out.ply
merge held/splats.ply loose.ply
profile held
run data/images/view_000.png -o r
run data/images -o r --masks nowhere
align data/images -o r --masks nowhere
run data/images -o r --steps 5 -- --steps 2
convert held/splats.ply out.ksplat
convert held/splats.ply out.ply --format usd
convert held/splats.ply out.spz --sh-bits 9,1
convert held/splats.ply out.glb --sh-bits 8,8
convert held/splats.ply out.splat --spz-version 3
convert held/splats.ply out.ply --spz-frame rub
convert held/splats.ply out.spz --no-normals
convert held/splats.ply cut.ply
convert held/splats.ply out.ply --sh-degree 7
convert nowhere.ply out.ply
convert held/splats.ply out.ply --crop=0,0,0,1,1
convert held/splats.ply out.ply --crop=1,0,0,0,1,1
convert held/splats.ply out.ply --crop=1e6,0,0,2e6,1,1
convert held/splats.ply out.ply --crop-to-cameras 2
convert held/splats.ply out.ply --data data
convert held out.ply --crop-to-cameras 0
convert held/splats.ply out.ply --box=0,0,0,1
convert held/splats.ply out.ply --sphere=0,0,0
convert held/splats.ply out.ply --sphere=0,0,0,-1
convert held/splats.ply out.ply --sphere=1e5,0,0,1
convert held/splats.ply out.ply --drop-far 0
convert held/splats.ply out.ply --min-opacity 2
convert held/splats.ply out.ply --min-opacity 1
convert held/splats.ply out.ply --translate 1,2
convert held/splats.ply out.ply --rotate 90
convert held/splats.ply out.ply --scale 0
convert held/splats.ply out.splat --morton
convert held/splats.ply out.spz --min-psnr 0
convert held/splats.ply out.spz --min-psnr 200
convert held/splats.ply out.spz --device cpu --max-gpu-memory 4GiB
convert held/splats.ply out.ply --filter-sphere 0,0,0,1
clean held -o out.xyz
clean held -o out.ksplat
convert data out.ply
view
view nowhere
view empty
view broken
view unfinished
view held --port 70000
view held --listen here
view held --allow-host box
train data -o seen --viewer=x
train data -o seen --until division --viewer
train --resume held --block 1 --profile
train data -o seen --viewer --viewer-share 0
clean held
clean held/splats.ply -o out.ply
clean empty -o out.ply
demo --size big
demo --scene table --pictures 50
demo --pictures 39
bench train --steps 0
bench raster --workload warm
bench raster --camera path.json
bench raster --splats 5 --camera path.json
bench raster --splats 5 --view 2
bench raster --threads 1025
bench raster --adam dense
field slice a.safetensors -o a.png --frame 1
align data/images -o r --fps 3
align data/images -o r --pairs nowhere.txt
align data/images -o r --pairs all --sequence
run data/images -o r --max-frames 20
run data/images -o r --config unknown.toml
run data/images -o r -- --stesp 5
run data/images -o r -- --steps 0
run data/images -o r -- --data other
run data/images -o r --steps 5 -- --time-budget 3s
pano run data/images -o r -- --exposure maybe
pano run data/images -o r -- --invert-masks
pano run data/images -o r --config nowhere.toml
mask data/images -o r
mask data/images -o r --model nowhere.onnx
mask data/images -o r --model syntax.toml
mask data/images -o r --model long.onnx
mask nowhere -o r --model red.onnx
mask data/images -o r --model red.onnx --remove persn
mask data/images -o r --model red.onnx --remove sky
mask data/images -o r --model red.onnx --keep person
mask data/images -o r --model red.onnx --confidence 2
mask data/images -o r --model red.onnx --dilate 7pt
mask data/images -o r --model red.onnx --dilate 90
mask data/images -o r --model red.onnx --passes 3
mask data/images -o r --model red.onnx --mask-views ring9
mask data/images -o r --model red.onnx --modes alpha
mask data/images -o r --model red.onnx --modes masks --feather 1
mask data/images -o r --model red.onnx --model-toml nowhere.toml
mask data/images -o r --model red.onnx --model-toml unknown.toml
mask data/images -o r --model red.onnx --as cubes
mask data/images -o r --model red.onnx --temporal 9
mask data/images -o r --model red.onnx --temporal 1
mask data/images -o r --model red.onnx --max-frames 2
mask data/images -o r --model red.onnx --cutout-format gif
mask data/images -o r --model red.onnx --modes masks --cutout-format webp
mask data/images -o r --model red.onnx --poses nowhere.csv
mask walk -o r --still-patch --remove cat
mask walk -o r --still-patch --confidence 0.3
mask walk -o r --still-patch --temporal 1
mask walk -o r --still-patch --explain
mask walk -o r --model red.onnx --mask-engine rten --python nowhere
mask walk -o r --model red.onnx --profile r/p
mask lone -o r --model red.onnx
mask walk -o r --crop-bottom -3
mask data/images -o r --keep-box 1,2,3
mask data/images -o r --keep-box 1,1,1,0,0,0
mask data/images -o r --keep-box 0,0,0,1,1,1
pano split data/images -o r --temporal 1
pano split walk -o r --masks nowhere
pano split walk -o r --masks file
pano split walk -o r --profile r
pano split walk -o r --size -5
pano split walk -o r --fov 180
pano split walk -o r --lens falling.json
pano split walk -o r --lens three.json
pano split lone -o r
pano layouts --fov 1e9
pano convert walk walk --to cross --force
pano convert walk/p0.jpg nowhere/o.jpg --to cross
pano convert nowhere.jpg o.jpg --to cross
pano convert data/images o.jpg
pano convert data/images o --to cube
pano convert data/images o --to equirect --faces rludfb
pano convert data/images o --to strip --faces rlud
pano convert data/images o --to cross --grid 6x1
pano convert data/images o --to equirect --from cross
pano convert data/images o.gif --to cross
pano calibrate nowhere -o l.json
pano calibrate data/images -o l.json
pano calibrate data/images -o l.json --circle-radius 0%
pano calibrate data/images -o l.json --start 3
pano calibrate data/images -o l.json --lens nowhere.json
pano calibrate data/images -o l.json --poses nowhere.csv
pano calibrate data/images -o l.json --poses data
pano calibrate data/images -o l.json --poses data --max-frames 2
pano calibrate data/images -o l.json --poses two.txt
pano calibrate file -o l.json --poses data
pano calibrate data/images -o square.json --poses square.json --force
pano split data/images -o r --lens nowhere.json
pano preview data/images -o r.png --lens nowhere.json
pano preview data/images/view_000.png --page -o r.png
pano preview data/images/view_000.png -o r.png --port 7007
pano preview data/images/view_000.png -o r.png --listen 127.0.0.1
pano preview data/images/view_000.png -o r.jpg
pano preview data/images/view_000.png -o nowhere/r.png
pano preview data/images/view_000.png -o empty --force
pano preview data/images/view_000.png -o r.png --mask nowhere.png
pano frames nowhere.mp4 --lens nowhere.json
pano frames nowhere.mp4 --lens nowhere.json --kind ordinary
pano split data/images -o r --naming rig --numbering source
pano split data/images -o r --look exposure
pano split data/images -o r --look exposre=1
pano split data/images -o r --look exposure=9
pano split data/images -o r --from equirect --lut nowhere.cube
pano split data/images -o r --from equirect --lut one.cube
pano split data/images -o r --equalise all
pano compare nowhere data
pano compare data nowhere.csv
pano compare data
pano compare data data/images
pano compare data nan.json
pano compare data square.json
pano compare data keys.json
pano compare data list.json
pano compare data columns.csv
pano compare data seven.txt
pano compare data stamps.txt
pano compare data scale.xml
pano compare data chunks.xml
pano compare data other.xml
pano compare data nan.json --csv out/errors.csv
pano masks nowhere -o o
pano masks file -o o
pano masks data -o o
pano masks data/images -o o.png
pano masks data/images -o o --combine xor
pano masks data/images -o o --dilate 1
pano masks data/images -o o --dilate 99
pano masks data/images -o o --layout cube6
pano masks data/images -o o --feather -1
pano masks data/images -o o --to-panorama 511
pano masks data/images -o o --to-panorama 512
pano masks data/images -o o --to-panorama 512 --to-views
pano align data --reference
pano align data --poses
pano align data --refine
pano align data --track-offset 1
pano align data --track nowhere.gpx --track-offset soon
pano split data/images -o r --track nowhere.gpx
pano frames data/images/view_000.png --track nowhere.gpx --select time
pano frames data/images/view_000.png --track-offset 1
pano align data --track nowhere.gpx --poses nowhere.csv
pano align data --poses nowhere.csv --track-offset auto
pano align data --aligner own --poses nowhere.csv --track nowhere.gpx
pano align data --matches nowhere --database nowhere.db
pano align data --aligner
pano align data --aligner mine
pano align data --aligner own --matches nowhere
pano align data --aligner own --track nowhere.gpx --refine
pano export data --masks gimp
pano export data --invert
pano export data --format ply
pano export data --format csv --sources data
pano export data --format csv --text
pano split data/images -o r --select space
pano split nowhere.mp4 -o r --select spce
pano frames nowhere.mp4
pano frames data/images
pano frames nowhere.mp4 --step 0
pano frames nowhere.mp4 --step -1
pano frames nowhere.mp4 --fps 1e9
pano frames nowhere.mp4 --select space --fps 2
pano frames nowhere.mp4 --select time --step 3
pano frames nowhere.mp4 --kind pano
run data/images -o r --select time
train data -o r --allow-missing=perhaps
profile show
profile show held
profile diff held
render held --frames 5
render held --path config.json --frames 5
render held --split test --width 64
render held --path config.json --height 64
render held --split all --fov 40
render held --orbit 5 --size 8x8 --width 9
render held --orbit 5 --fov 200
completions tcsh
";

/// A chunk of Metashape with a scale.
fn chunk(scale: &str) -> String {
    let camera =
        "<camera id=\"0\" label=\"a\"><transform>1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1</transform></camera>";
    format!("<chunk><transform><scale>{scale}</scale></transform><cameras>{camera}</cameras></chunk>")
}

/// A folder with all files that the command lines refer to.
fn workshop() -> TestFolder {
    let workshop = TestFolder::with_data();
    let write = |name: &str, bytes: &[u8]| std::fs::write(workshop.path(name), bytes).expect(name);
    for folder in ["empty", "broken/sparse/0", "broken/images", "unfinished", "walk", "lone"] {
        std::fs::create_dir_all(workshop.path(folder)).expect(folder);
    }
    for (name, text) in [
        ("one.cube", "LUT_3D_SIZE 1\n0 0 0\n"),
        ("unknown.toml", "max-splat = 5\n"),
        ("syntax.toml", "steps = 5\nseed = = 3\n"),
        ("value.toml", "strategy = 'best'\n"),
        ("growth.toml", "strategy = 'classic'\ngrowth = 1.2\n"),
        ("config.json", "{\"a\": 1}"),
        ("file", "not a folder"),
        (
            "nan.json",
            "{\"frames\": [{\"file_path\": \"a\", \"transform_matrix\": [[NaN, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]}]}",
        ),
        (
            "square.json",
            "{\"frames\": [{\"file_path\": \"a\", \"transform_matrix\": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}]}",
        ),
        ("keys.json", "{\"fl_x\": 300, \"w\": 640}"),
        ("list.json", "[]"),
        ("columns.csv", "#name,x,y,alt,heading,pitch\na,1,2,3,4,5\n"),
        ("seven.txt", "0 1 2 3 0 0 1\n"),
        ("two.txt", "0 1 2 3 0 0 0 1\n1 1 2 4 0 0 0 1\n"),
        ("stamps.txt", "1700000000 1 2 3 0 0 0 1\n1700000001 1 2 4 0 0 0 1\n"),
        ("scale.xml", format!("<document>{}</document>", chunk("0")).as_str()),
        ("chunks.xml", format!("<document>{}{}</document>", chunk("1"), chunk("2")).as_str()),
        ("other.xml", "<kml/>"),
    ] {
        write(name, text.as_bytes());
    }
    let lens =
        |k: &str| format!("{{\"cx\": 9, \"cy\": 9, \"radius\": 9, \"half_angle\": 97, \"polynomial\": {k}}}");
    let lenses = |all: &str| format!("{{\"width\": 256, \"height\": 128, \"lenses\": [{all}]}}");
    let good = lens("[1, 0, 0]");
    write("falling.json", lenses(&format!("{good}, {}", lens("[1, -5, 0]"))).as_bytes());
    write("three.json", lenses(&format!("{good}, {good}, {good}")).as_bytes());
    write_walk(&workshop.path("walk"), 1);
    let panorama = workshop.read("walk/p0.jpg");
    write("lone/GS__0001_track0.jpg", &panorama);
    write("red.onnx", &gausset_testkit::onnx::TestNetwork::red_segmenter(16).bytes());
    let mut long = gausset_testkit::onnx::TestNetwork::new("x", &[1, 3, 16, 16]);
    long.operator_chain("Relu", "x", "y", 20_001);
    write("long.onnx", &long.bytes());
    for file in ["cameras.bin", "images.bin", "points3D.bin"] {
        // A wrong count: more records than the file can hold.
        write(&format!("broken/sparse/0/{file}"), &[0xff; 16]);
    }
    workshop.succeed(&["train", "data", "-o", "held", "--steps", "10", "-q"]);
    workshop.succeed(&["train", "data", "-o", "unfinished", "--steps", "10", "-q"]);
    std::fs::remove_file(workshop.path("unfinished/splats.ply")).expect("remove");
    let ply = workshop.read("held/splats.ply");
    write("cut.ply", &ply[..ply.len() / 2]);
    write("loose.ply", &ply);
    let scene = gausset_scenes::ProceduralScene { seed: 7, ..gausset_scenes::tiny() };
    let pool = gausset_compute::Pool::new(1);
    gausset_scenes::write_dataset(&scene, &workshop.path("other"), &pool, &mut |_, _| {})
        .expect("other data");
    // Another camera makes it another dataset, even with the same images.
    std::fs::remove_file(workshop.path("other/images/view_005.png")).expect("remove");
    workshop
}

#[test]
fn every_known_mistake_gives_one_line_and_exit_code_2() {
    let workshop = workshop();
    let mut lines = String::new();
    for mistake in MISTAKES.lines().filter(|line| !line.is_empty()) {
        let arguments: Vec<&str> = mistake.split(' ').collect();
        let finished = workshop.run(&arguments);
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stdout.is_empty(), "{finished:?}");
        assert!(!workshop.path("r").exists(), "nothing is left behind: {finished:?}");
        // Warnings about the data may precede the line.
        let last = finished.stderr.lines().last().unwrap_or_default();
        let message = last.strip_prefix("gausset: ").unwrap_or_else(|| panic!("{finished:?}"));
        let _ = writeln!(lines, "$ gausset {mistake}\n{message}\n");
    }
    insta::assert_snapshot!(without_what_varies(&lines));
}

/// Replaces the folder of this test and the fingerprints of its data in the lines.
fn without_what_varies(lines: &str) -> String {
    let is_fingerprint = |word: &str| {
        let word = word.strip_prefix("2-").unwrap_or(word);
        word.len() == 32 && word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let word = |word: &str| {
        let bare = word.trim_matches([',', ')', ';']);
        match bare {
            _ if is_fingerprint(bare) => word.replace(bare, "FINGERPRINT"),
            _ if bare.starts_with(&*std::env::temp_dir().to_string_lossy()) => {
                word.split_once("/.tmp").map_or(word.to_owned(), |(_, rest)| {
                    format!(
                        "FOLDER{}",
                        rest.split_once('/').map_or("", |(_, name)| name).replacen("", "/", 1)
                    )
                })
            }
            _ => word.to_owned(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    lines.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_program_gets_its_errors_as_an_object_on_stderr() {
    let workshop = TestFolder::empty();
    for (arguments, code) in [
        (&["eval", "nowhere", "--json"][..], "not-a-run"),
        (&["train", "nowhere", "-o", "r", "--json"], "dataset"),
        (&["train", "x", "-o", "r", "--steps", "0", "--json"], "option"),
        (&["info", "--bananas", "--json"], "usage"),
    ] {
        let finished = workshop.run(arguments);
        assert_eq!((finished.code, finished.stdout.as_str()), (2, ""), "{finished:?}");
        let object: serde_json::Value = serde_json::from_str(&finished.stderr).expect("one JSON object");
        assert_eq!(object["error"]["code"], code, "{finished:?}");
        assert!(object["error"]["message"].as_str().is_some_and(|line| !line.is_empty()), "{finished:?}");
    }
}
