//! Fields from the command line: fit, query, pictures, mistakes, resume.

use serde_json::Value;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Finished, Workshop, wait_until};

/// Samples of one bump, with a header line.
fn samples() -> String {
    let mut text = "x,y,z,value\n".to_owned();
    for i in 0..1000 {
        let at = [i % 10, i / 10 % 10, i / 100].map(|k| f64::from(k) + 0.25);
        let square: f64 = at.iter().map(|x| (x - 5.0) * (x - 5.0)).sum();
        text += &format!("{},{},{},{}\n", at[0], at[1], at[2], (-0.125 * square).exp());
    }
    text
}

fn workshop() -> Workshop {
    let workshop = Workshop::empty();
    std::fs::write(workshop.path("samples.csv"), samples()).expect("samples");
    workshop
}

#[test]
fn a_bump_is_fitted_and_queried_and_drawn() {
    let workshop = workshop();
    let fitted =
        workshop.succeed(&["field", "fit", "samples.csv", "-o", "bump.safetensors", "-n", "4", "--json"]);
    let report: Value = serde_json::from_str(&fitted.stdout).expect("JSON");
    assert_eq!(report["gaussians"], 4);
    for key in ["steps", "seconds"] {
        assert!(report[key].is_number(), "{key}");
    }
    assert!(report["test"]["r2"].as_f64().expect("R2") > 0.9999, "{report}");
    assert!(report["train"]["psnr"].as_f64().expect("PSNR") > 40.0, "{report}");

    std::fs::write(workshop.path("points.csv"), "5,5,5\n1.25 , 1.25, 1.25\n").expect("points");
    workshop.succeed(&["field", "query", "bump.safetensors", "points.csv", "-o", "values.csv", "--grad"]);
    let text = String::from_utf8(workshop.read("values.csv")).expect("text");
    let rows: Vec<Vec<f64>> =
        text.lines().skip(1).map(|l| l.split(',').map(|v| v.parse().expect("number")).collect()).collect();
    // The top of the bump: 1, flat. The fit is good to about a thousandth.
    assert!((rows[0][0] - 1.0).abs() < 5e-3 && rows[0][1].abs() < 2e-2, "{text}");

    workshop.succeed(&["field", "slice", "bump.safetensors", "-o", "slice.png"]);
    workshop.succeed(&["field", "mip", "bump.safetensors", "-o", "mip.png", "--integral"]);
    for name in ["volume.npy", "volume.nrrd", "volume.vti"] {
        workshop.succeed(&["field", "voxelize", "bump.safetensors", "-o", name, "--shape", "8,9,10"]);
    }
    workshop.succeed(&["field", "export", "bump.safetensors", "-o", "bump.ply"]);
    workshop.succeed(&["field", "export", "bump.ply", "-o", "again.safetensors"]);
    let info = workshop.succeed(&["field", "info", "again.safetensors", "--json"]);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["gaussians"], 4);
    // What was written as a volume can be fitted again.
    workshop.succeed(&[
        "field",
        "fit",
        "volume.nrrd",
        "-o",
        "v.safetensors",
        "-n",
        "5",
        "--solver",
        "adam",
        "--steps",
        "5",
    ]);
}

#[test]
fn a_fit_gives_the_same_bytes_on_any_number_of_threads_and_vector_level() {
    let workshop = workshop();
    let fit = |name: &str, more: &[&str]| {
        let arguments =
            ["field", "fit", "samples.csv", "-o", name, "-n", "40", "--solver", "adam", "--steps", "30"];
        workshop.succeed(&[&arguments, more].concat());
        workshop.read(name)
    };
    let first = fit("a.safetensors", &["--threads", "1"]);
    assert!(first == fit("b.safetensors", &["--threads", "3"]), "threads");
    assert!(first == fit("c.safetensors", &["--simd", "fallback"]), "vector level");
}

#[test]
fn an_interrupted_fit_goes_on_to_the_same_bytes_and_its_state_is_not_lost() {
    let workshop = workshop();
    let fit = |name: &'static str| {
        ["field", "fit", "samples.csv", "-o", name, "-n", "400", "--solver", "adam", "--steps", "600"]
    };
    workshop.succeed(&fit("whole.safetensors"));
    let child = workshop.start(&fit("part.safetensors"));
    // Steps are under way by then on an idle machine. On others it may be done, or not yet watching for signals: then
    // there is nothing to go on from.
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::INT).expect("the signal is sent");
    let stopped = Finished::new(&fit("part.safetensors"), child.wait_with_output().expect("wait"));
    if stopped.code == 130 {
        wait_until("the state is there", || workshop.path("part.safetensors.state").is_file());
        let again = workshop.run(&fit("part.safetensors"));
        assert!(again.code == 2 && again.stderr.contains("--resume"), "{again:?}");
        workshop.succeed(&[&fit("part.safetensors")[..], &["--resume"]].concat());
    } else if !workshop.path("part.safetensors").is_file() {
        workshop.succeed(&fit("part.safetensors"));
    }
    assert!(workshop.read("whole.safetensors") == workshop.read("part.safetensors"));
    assert!(!workshop.path("part.safetensors.state").exists());
}

#[test]
fn mistakes_give_one_line_and_leave_nothing() {
    let workshop = workshop();
    let write = |name: &str, bytes: &[u8]| std::fs::write(workshop.path(name), bytes).expect("file");
    write("nan.csv", b"0,0,0,1\n1,1,1,nan\n");
    write("empty.csv", b"");
    write("short.csv", b"1,2,3\n");
    write(
        "cut.nrrd",
        b"NRRD0004\ntype: float\ndimension: 3\nsizes: 9 9 9\nencoding: raw\nendian: little\n\nabc",
    );
    write("huge.nrrd", b"NRRD0004\ntype: float\ndimension: 3\nsizes: 90000000 90000000 9\nencoding: raw\nendian: little\n\nabc");
    write(
        "lies.npy",
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 4), }    \n",
    );
    write("foreign.safetensors", b"\x02\0\0\0\0\0\0\0{}");
    write("cut.safetensors", b"\xff\0\0\0\0\0\0\0{\"means\":");
    write("points.csv", b"1e9,0,0\n");
    workshop.succeed(&["field", "fit", "samples.csv", "-o", "good.safetensors", "-n", "2"]);
    let fit = |input: &str| -> Vec<String> {
        ["field", "fit", input, "-o", "out.safetensors"].map(str::to_owned).to_vec()
    };
    let query = |model: &str| -> Vec<String> {
        ["field", "query", model, "points.csv", "-o", "out.csv"].map(str::to_owned).to_vec()
    };
    let mut mistakes: Vec<Vec<String>> = [
        "nan.csv",
        "empty.csv",
        "short.csv",
        "cut.nrrd",
        "huge.nrrd",
        "lies.npy",
        "nowhere.csv",
        "points.doc",
    ]
    .map(fit)
    .to_vec();
    mistakes.extend(["foreign.safetensors", "cut.safetensors", "good.safetensors"].map(query));
    mistakes.push(["field", "fit", "samples.csv", "-o", "out.ply"].map(str::to_owned).to_vec());
    for arguments in mistakes {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let finished = workshop.run(&arguments);
        assert_eq!(finished.code, 2, "{finished:?}");
        assert_eq!(finished.stderr.lines().filter(|l| l.starts_with("gausset:")).count(), 1, "{finished:?}");
        assert!(!workshop.path("out.safetensors").exists() && !workshop.path("out.csv").exists());
    }
}
