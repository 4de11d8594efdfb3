//! Fields on the command line: fit, query, images, mistakes, resume.

use std::time::Instant;

use gausset_field::fit::Grid;
use gausset_field::model::FieldModel;
use gausset_field::{CovarianceKind, FieldBounds, GaussianField, WeightMode};
use gausset_io::image::decode_file;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{ProcessResult, TIMEOUT, TestFolder, wait_until};

/// Samples of one Gaussian, with a header line.
fn samples() -> String {
    let mut text = "x,y,z,value\n".to_owned();
    for i in 0..1000 {
        let at = [i % 10, i / 10 % 10, i / 100].map(|k| f64::from(k) + 0.25);
        let square: f64 = at.iter().map(|x| (x - 5.0) * (x - 5.0)).sum();
        text += &format!("{},{},{},{}\n", at[0], at[1], at[2], (-0.125 * square).exp());
    }
    text
}

fn workshop() -> TestFolder {
    let workshop = TestFolder::empty();
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
    // At the peak the value is 1 and the gradient 0. The fit is accurate to about a thousandth.
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
    // A written volume can be fitted again.
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

/// Whether a process handles a signal.
#[cfg(target_os = "linux")]
fn handles(child: &std::process::Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught >> (signal.as_raw() - 1) & 1 == 1
}

/// Always true: other systems do not report signal handlers.
#[cfg(not(target_os = "linux"))]
fn handles(_: &std::process::Child, _: Signal) -> bool {
    std::thread::sleep(std::time::Duration::from_millis(500));
    true
}

/// Splits a command line into words.
fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn an_interrupted_fit_goes_on_to_the_same_bytes_and_its_state_is_not_lost() {
    let workshop = workshop();
    let fit = |name: &str, steps: u32| {
        format!("field fit samples.csv -o {name} -n 400 --solver adam --validation 0 --steps {steps}")
    };
    // If the fit was finished before the signal, the test is repeated with twice as many steps.
    let mut steps = 600;
    let mut pause = std::time::Duration::ZERO;
    loop {
        let line = fit("part.safetensors", steps);
        let child = workshop.start(&words(&line));
        wait_until("the fit listens", || handles(&child, Signal::INT));
        std::thread::sleep(pause);
        kill_process(Pid::from_child(&child), Signal::INT).expect("the signal is sent");
        let stopped = ProcessResult::new(&words(&line), child.wait_with_output().expect("wait"));
        if stopped.code == 130 && !workshop.path("part.safetensors.state").exists() {
            // The signal came while samples were read.
            pause += std::time::Duration::from_millis(20);
            continue;
        }
        if stopped.code == 130 {
            assert!(stopped.stderr.contains("resume with --resume"), "{stopped:?}");
            break;
        }
        assert!(stopped.code == 0 && steps < 100_000, "{stopped:?}");
        std::fs::remove_file(workshop.path("part.safetensors")).expect("the field");
        steps *= 2;
    }
    let state = workshop.read("part.safetensors.state");
    assert!(!workshop.path("part.safetensors").exists());
    let line = fit("part.safetensors", steps);
    let again = workshop.run(&words(&line));
    assert!(again.code == 2 && again.stderr.contains("--resume"), "{again:?}");
    assert!(workshop.read("part.safetensors.state") == state);
    workshop.succeed(&words(&format!("{line} --resume")));
    workshop.succeed(&words(&fit("whole.safetensors", steps)));
    assert!(workshop.read("whole.safetensors") == workshop.read("part.safetensors"));
    assert!(!workshop.path("part.safetensors.state").exists());
}

#[test]
fn nothing_is_replaced_without_force() {
    let workshop = workshop();
    write_bump(&workshop, "bump.safetensors", GRID, 3.0);
    std::fs::write(workshop.path("points.csv"), "12,24,36\n").expect("points");
    for (line, name) in [
        ("field fit samples.csv -n 2", "f.safetensors"),
        // There is no saved state, so this fit would start at step 0.
        ("field fit samples.csv -n 2 --resume", "r.safetensors"),
        ("field query bump.safetensors points.csv", "q.csv"),
        ("field query bump.safetensors points.csv", "q.npy"),
        ("field voxelize bump.safetensors", "v.nrrd"),
        ("field slice bump.safetensors", "s.png"),
        ("field mip bump.safetensors", "m.png"),
        ("field export bump.safetensors", "e.ply"),
    ] {
        std::fs::write(workshop.path(name), "mine").expect("a file");
        let line = format!("{line} -o {name}");
        let refused = workshop.run(&words(&line));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(
            refused.stderr.contains(&format!("{name}: ")) && refused.stderr.contains("--force"),
            "{refused:?}"
        );
        assert_eq!(workshop.read(name), b"mine", "{line}");
        workshop.succeed(&words(&format!("{line} --force")));
        assert_ne!(workshop.read(name), b"mine", "{line}");
    }
    // A file with the name of a fit state is not replaced either.
    std::fs::write(workshop.path("g.safetensors.state"), "mine").expect("a file");
    for more in ["", " --resume"] {
        let refused = workshop.run(&words(&format!("field fit samples.csv -n 2 -o g.safetensors{more}")));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("g.safetensors.state: "), "{refused:?}");
        assert_eq!(workshop.read("g.safetensors.state"), b"mine");
    }
}

const GRID: Grid = Grid { dims: [6, 5, 4], spacing: [1.0, 2.0, 3.0] };
const MEAN: [f64; 3] = [2.0, 4.0, 6.0];
const SIGMA: [f64; 3] = [1.5, 4.0, 2.5];

/// One Gaussian on the voxel (2, 2, 2) of a grid: `value = 2 + scale G`; the world is shifted by (10, 20, 30).
fn write_bump(workshop: &TestFolder, name: &str, grid: Grid, scale: f64) {
    let chol = vec![[SIGMA[0].ln(), 0.0, SIGMA[1].ln(), 0.0, 0.0, SIGMA[2].ln()]];
    let mut field = GaussianField::new(vec![MEAN], chol, vec![1.0], WeightMode::Raw, CovarianceKind::Full)
        .expect("a field");
    field.bounds = Some(FieldBounds { lo: [-0.5, -1.0, -1.5], hi: [5.5, 9.0, 10.5] });
    let world_from_model = [[1.0, 0.0, 0.0, 10.0], [0.0, 1.0, 0.0, 20.0], [0.0, 0.0, 1.0, 30.0]];
    let model = FieldModel {
        offset: 2.0,
        scale,
        world_from_model,
        grid: Some(grid),
        ..FieldModel::from_field(field)
    };
    std::fs::write(workshop.path(name), model.to_bytes()).expect("a field file");
}

fn gauss(x: [f64; 3]) -> f64 {
    (0..3).map(|k| (-0.5 * ((x[k] - MEAN[k]) / SIGMA[k]).powi(2)).exp()).product()
}

/// Grey levels of an image that was enlarged by an integer factor, by (column, row from the bottom).
fn levels(workshop: &TestFolder, name: &str, [width, height]: [usize; 2]) -> Vec<Vec<u8>> {
    let picture = decode_file(&workshop.path(name)).expect("a picture");
    let factor = picture.width as usize / width;
    // Below it is a strip of 60 px with the scale.
    assert_eq!([width * factor, height * factor + 60], [picture.width as usize, picture.height as usize]);
    // The smallest integer factor that makes the longer side at least 256 px.
    assert_eq!(factor, 256usize.div_ceil(width.max(height)));
    let at = |column: usize, row: usize| {
        let (x, y) = (column * factor + factor / 2, (height - 1 - row) * factor + factor / 2);
        let pixel = &picture.rgb[3 * (x + y * picture.width as usize)..][..3];
        assert!(pixel[0] == pixel[1] && pixel[1] == pixel[2], "{pixel:?} is no grey");
        pixel[0]
    };
    (0..height).map(|row| (0..width).map(|column| at(column, row)).collect()).collect()
}

/// Compares an image with values, drawn from black (minimum) to white (maximum).
fn assert_drawn(workshop: &TestFolder, name: &str, size: [usize; 2], value: impl Fn(usize, usize) -> f64) {
    let values: Vec<Vec<f64>> =
        (0..size[1]).map(|row| (0..size[0]).map(|column| value(column, row)).collect()).collect();
    let all = || values.iter().flatten().copied();
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    for (row, (drawn, values)) in levels(workshop, name, size).iter().zip(&values).enumerate() {
        for (column, (drawn, value)) in drawn.iter().zip(values).enumerate() {
            let expected = 255.0 * (value - least) / (most - least);
            // Half a level of rounding, and the allowed error of images.
            assert!(
                (f64::from(*drawn) - expected).abs() < 0.6,
                "{name} ({column}, {row}): {drawn}, not {expected}"
            );
        }
    }
}

#[test]
fn slices_and_projections_show_the_values_of_their_voxels() {
    let workshop = TestFolder::empty();
    // Also with a negative weight, where the background is the largest value.
    for scale in [3.0, -3.0] {
        write_bump(&workshop, "bump.safetensors", GRID, scale);
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            let [u, v] = [[1, 2], [0, 2], [0, 1]][axis];
            let size = [GRID.dims[u], GRID.dims[v]];
            let voxel = |at: usize, column: usize, row: usize| {
                let mut x = [0.0; 3];
                x[axis] = at as f64 * GRID.spacing[axis];
                x[u] = column as f64 * GRID.spacing[u];
                x[v] = row as f64 * GRID.spacing[v];
                x
            };
            for at in [0, GRID.dims[axis] - 1] {
                let line = format!("field slice bump.safetensors --axis {name} --at {at} -o s.png --force");
                workshop.succeed(&words(&line));
                assert_drawn(&workshop, "s.png", size, |c, r| scale * gauss(voxel(at, c, r)));
            }
            let line = format!("field mip bump.safetensors --axis {name} -o m.png --force");
            workshop.succeed(&words(&line));
            let along = |c, r| (0..GRID.dims[axis]).map(move |at| scale * gauss(voxel(at, c, r)));
            assert_drawn(&workshop, "m.png", size, |c, r| along(c, r).fold(f64::NEG_INFINITY, f64::max));
            workshop.succeed(&words(&format!("{line} --integral")));
            // Integrated along an axis, the width of the Gaussian is a constant factor.
            let over = |c, r| {
                let mut x = voxel(0, c, r);
                x[axis] = MEAN[axis];
                scale * gauss(x)
            };
            assert_drawn(&workshop, "m.png", size, over);
        }
    }
}

/// The numbers at the end of a file, or before its last `after` bytes.
fn numbers(bytes: &[u8], count: usize, after: usize) -> Vec<f64> {
    let end = bytes.len() - after;
    let numbers = bytes[end - 4 * count..end].as_chunks().0;
    numbers.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
}

#[test]
fn a_volume_holds_the_values_at_the_centres_of_its_voxels() {
    let workshop = TestFolder::empty();
    write_bump(&workshop, "bump.safetensors", GRID, 3.0);
    let voxelize = |name: &str, more: &str| {
        workshop.succeed(&words(&format!("field voxelize bump.safetensors -o {name}{more}")));
        workshop.read(name)
    };
    // The voxels of the fitted volume, at index * spacing. The default cut-off is 0.001 % of the largest value.
    let nrrd = voxelize("a.nrrd", "");
    let header = String::from_utf8_lossy(&nrrd[..nrrd.len() - 4 * 120]).into_owned();
    for field in [
        "sizes: 6 5 4\n",
        "space directions: (1,0,0) (0,2,0) (0,0,3)\n",
        "space origin: (10,20,30)\n",
        "space: right-anterior-superior\n",
    ] {
        assert!(header.contains(field), "{field} is not in {header}");
    }
    let values = numbers(&nrrd, 120, 0);
    for (i, found) in values.iter().enumerate() {
        let index = [i % 6, i / 6 % 5, i / 30];
        let value = 2.0 + 3.0 * gauss(std::array::from_fn(|k| index[k] as f64 * GRID.spacing[k]));
        assert!((found - value).abs() < 4e-5, "{index:?}: {found}, not {value}");
    }
    assert!((values[2 + 6 * (2 + 5 * 2)] - 5.0).abs() < 4e-5, "the voxel on the mean");
    // Other voxels: cells of the box from (-0.5, -1, -1.5) to (5.5, 9, 10.5), 2 x 2 x 3 large.
    let centre = |[i, j, k]: [usize; 3]| [0.5 + 2.0 * i as f64, 2.0 * j as f64, 3.0 * k as f64];
    let exact = " --shape 3,5,4 --cutoff-error 0";
    let npy = numbers(&voxelize("a.npy", exact), 60, 0);
    let end = "\n</AppendedData>\n</VTKFile>\n".len();
    let vti_bytes = voxelize("a.vti", exact);
    let vti = numbers(&vti_bytes, 60, end);
    let header = String::from_utf8_lossy(&vti_bytes[..vti_bytes.len() - end - 240]).into_owned();
    for field in ["WholeExtent=\"0 2 0 4 0 3\"", "Origin=\"10.5 20 30\"", "Spacing=\"2 2 3\""] {
        assert!(header.contains(field), "{field} is not in {header}");
    }
    // Extensions are not case-sensitive.
    assert_eq!(numbers(&voxelize("b.NRRD", exact), 60, 0), vti);
    assert!(workshop.read("b.NRRD").starts_with(b"NRRD0004\n"));
    for i in 0..3 {
        for j in 0..5 {
            for k in 0..4 {
                let value = 2.0 + 3.0 * gauss(centre([i, j, k]));
                // `.npy` has z fastest, the others x.
                let (z_fastest, x_fastest) = (npy[k + 4 * (j + 5 * i)], vti[i + 3 * (j + 5 * k)]);
                assert!((z_fastest - value).abs() < 4e-6, "({i}, {j}, {k}): {z_fastest}, not {value}");
                assert_eq!(z_fastest, x_fastest);
            }
        }
    }
}

#[test]
fn fields_of_a_plane_or_without_a_box_become_volumes_too() {
    let workshop = TestFolder::empty();
    let chol = vec![[SIGMA[0].ln(), 0.0, SIGMA[1].ln(), 0.0, 0.0, SIGMA[2].ln()]];
    let field = GaussianField::new(vec![MEAN], chol, vec![1.0], WeightMode::Raw, CovarianceKind::Full)
        .expect("a field");
    // A plane of z = 6 with cells of 1 x 2, and three standard deviations around the mean.
    let plane = FieldBounds { lo: [0.0, 0.0, 6.0], hi: [5.0, 10.0, 6.0] };
    for (bounds, dims, origin, spacing) in [
        (Some(plane), [5, 5, 1], [0.5, 1.0, 6.0], [1.0, 2.0, 1.0]),
        (Some(plane), [5, 5, 3], [0.5, 1.0, 5.0], [1.0, 2.0, 1.0]),
        (None, [3, 4, 5], [-1.0, -5.0, 0.0], [3.0, 6.0, 3.0]),
    ] {
        let model = FieldModel::from_field(GaussianField { bounds, ..field.clone() });
        std::fs::write(workshop.path("f.safetensors"), model.to_bytes()).expect("a field file");
        let [x, y, z] = dims;
        let shape = format!("--shape {x},{y},{z} --cutoff-error 0 --force");
        workshop.succeed(&words(&format!("field voxelize f.safetensors -o v.nrrd {shape}")));
        let found = numbers(&workshop.read("v.nrrd"), x * y * z, 0);
        for (i, found) in found.iter().enumerate() {
            let index = [i % x, i / x % y, i / (x * y)];
            let value = gauss(std::array::from_fn(|k| origin[k] + index[k] as f64 * spacing[k]));
            // Parameters are f32.
            assert!((found - value).abs() < 1e-5, "{bounds:?}, {index:?}: {found}, not {value}");
        }
    }
    workshop.succeed(&words("field slice f.safetensors -o s.png"));
    std::fs::write(workshop.path("points.csv"), "1,2,3\n").expect("points");
    workshop.succeed(&words("field query f.safetensors points.csv --f64 -o values.npy"));
    let values = workshop.read("values.npy");
    assert!(String::from_utf8_lossy(&values).contains("'descr': '<f8'"));
    let value = f64::from_le_bytes(*values.last_chunk().expect("a number"));
    assert!((value - gauss([1.0, 2.0, 3.0])).abs() < 1e-7, "{value}");
}

#[test]
fn a_field_file_that_lies_about_its_voxels_is_refused_in_one_line() {
    let workshop = TestFolder::empty();
    // More voxels than can be counted; 16 TiB of values, and as much in a plane.
    for dims in [[999_999_999; 3], [2_097_152, 2_097_152, 1]] {
        write_bump(&workshop, "liar.safetensors", Grid { dims, ..GRID }, 1.0);
        for line in [
            "field voxelize liar.safetensors -o out.npy",
            "field voxelize liar.safetensors -o out.npy --json",
            "field mip liar.safetensors -o out.png",
            "field mip liar.safetensors -o out.png --integral",
            "field slice liar.safetensors -o out.png --axis z",
        ] {
            let refused = workshop.run(&words(line));
            assert_eq!(refused.code, 2, "{refused:?}");
            let said = &refused.stderr;
            assert!(
                said.contains("liar.safetensors: grid: too many points for the memory of this machine"),
                "{said}"
            );
            assert!(!line.ends_with("--json") || said.contains("\"code\":\"memory\""), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(!workshop.path("out.npy").exists() && !workshop.path("out.png").exists());
        }
        // The hint is to request fewer voxels; the field itself is valid.
        workshop.succeed(&words("field voxelize liar.safetensors -o few.npy --shape 2,2,2 --force"));
        std::fs::write(workshop.path("points.csv"), "12,24,36\n").expect("points");
        workshop.succeed(&words("field query liar.safetensors points.csv -o value.csv --force"));
        assert_eq!(workshop.read("value.csv"), b"value\n3\n");
    }
}

#[test]
fn numbers_of_any_size_stay_short() {
    let workshop = TestFolder::empty();
    let chol = vec![[200.0, 0.0, 200.0, 0.0, 0.0, 200.0]];
    let mut field =
        GaussianField::new(vec![[1e150; 3]], chol, vec![1.0], WeightMode::Raw, CovarianceKind::Full)
            .expect("a field");
    field.bounds = Some(FieldBounds { lo: [-1e308; 3], hi: [1e308, 1.5, 1e308] });
    let model = FieldModel { offset: 1e300, scale: 1e-300, ..FieldModel::from_field(field) };
    std::fs::write(workshop.path("far.safetensors"), model.to_bytes()).expect("a field file");
    let told = workshop.succeed(&words("field info far.safetensors")).stdout;
    assert!(told.contains("-1.0000e308 -1.0000e308 -1.0000e308 to 1.0000e308 1.5000 1.0000e308"), "{told}");
    assert!(told.contains("1e300 + 1e-300 f(x)"), "{told}");
    std::fs::write(workshop.path("points.csv"), "2e160,0,0\n").expect("points");
    for line in
        ["field query far.safetensors points.csv -o out.csv --f64", "field mip far.safetensors -o out.png"]
    {
        let refused = workshop.run(&words(line));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.len() < 250, "{refused:?}");
    }
}

#[test]
fn options_without_effect_are_refused() {
    let workshop = workshop();
    write_bump(&workshop, "bump.safetensors", GRID, 3.0);
    for (line, option) in [
        ("field fit samples.csv -o o.safetensors -n 5 --batches 2", "--batches"),
        ("field fit samples.csv -o o.safetensors -n 5 --max-gaussians 20", "--max-gaussians"),
        ("field fit samples.csv -o o.safetensors -n 50 --max-gaussians 20", "--max-gaussians"),
        ("field fit samples.csv -o o.safetensors -n 5 --frame 1", "frame 1"),
        ("field slice bump.safetensors -o o.png --frame 1", "--truth"),
    ] {
        let refused = workshop.run(&words(line));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(option), "{refused:?}");
    }
    // A cut-off also applies in f64: the point is 40 standard deviations away from all Gaussians.
    std::fs::write(workshop.path("points.csv"), "70,24,36\n").expect("points");
    for (more, pairs) in [("", 32), (" --cutoff-error 1e-6", 0)] {
        let line =
            format!("field query bump.safetensors points.csv -o o.csv --f64 --outside --json --force{more}");
        assert_eq!(workshop.succeed(&words(&line)).json()["pairs"], pairs, "{line}");
    }
}

#[cfg(unix)]
#[test]
fn no_input_is_waited_for() {
    let workshop = workshop();
    write_bump(&workshop, "bump.safetensors", GRID, 3.0);
    let pipe = |name: &str| {
        rustix::fs::mkfifoat(rustix::fs::CWD, workshop.path(name), rustix::fs::Mode::RUSR).expect("a pipe");
    };
    let mut lines: Vec<String> = Vec::new();
    for name in ["a.csv", "a.npy", "a.npz", "a.nrrd", "a.nii", "a.nii.gz", "a.hdr", "a.tif"] {
        pipe(name);
        lines.push(format!("field fit {name} -o out.safetensors"));
    }
    pipe("pipe.raw");
    let header = "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\ndata file: pipe.raw\n\n";
    std::fs::write(workshop.path("detached.nhdr"), header).expect("a header");
    lines.push("field fit detached.nhdr -o out.safetensors".to_owned());
    pipe("pipe.safetensors");
    pipe("pipe.ply");
    for (what, more) in
        [("voxelize", "-o o.npy"), ("slice", "-o o.png"), ("mip", "-o o.png"), ("export", "-o o.ply")]
    {
        lines.push(format!("field {what} pipe.safetensors {more}"));
    }
    lines.extend(
        [
            "field info pipe.safetensors",
            "field export pipe.ply -o out.safetensors",
            "field query pipe.safetensors samples.csv -o o.csv",
            "field query bump.safetensors a.csv -o o.csv",
            "field query bump.safetensors a.npy -o o.csv",
            "field slice bump.safetensors --truth a.nrrd -o o.png",
        ]
        .map(str::to_owned),
    );
    pipe("state.safetensors.state");
    lines.push("field fit samples.csv -o state.safetensors --resume".to_owned());
    for line in lines {
        let mut child = workshop.start(&words(&line));
        let started = Instant::now();
        while child.try_wait().expect("wait").is_none() {
            if started.elapsed() > TIMEOUT {
                child.kill().expect("kill");
                panic!("{line}: still waiting");
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let refused = ProcessResult::new(&words(&line), child.wait_with_output().expect("wait"));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("is a pipe (expected a regular file)"), "{refused:?}");
        assert_eq!(refused.stderr.lines().filter(|l| l.starts_with("gausset:")).count(), 1, "{refused:?}");
    }
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
    // Outputs and options are checked before the input is read.
    for (more, place) in [
        ("missing/o.safetensors", "missing/o.safetensors: "),
        ("folder.safetensors --force", "folder.safetensors: "),
        ("out.safetensors --holdout 2", "--holdout"),
    ] {
        std::fs::create_dir_all(workshop.path("folder.safetensors")).expect("a folder");
        let refused = workshop.run(&words(&format!("field fit nowhere.csv -o {more}")));
        assert!(refused.code == 2 && refused.stderr.contains(place), "{refused:?}");
        assert!(!refused.stderr.contains("nowhere.csv: "), "{refused:?}");
    }
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
        assert_eq!(
            finished
                .stderr
                .lines()
                .filter(|l| l.starts_with("gausset:") && !l.starts_with("gausset: warning:"))
                .count(),
            1,
            "{finished:?}"
        );
        assert!(!workshop.path("out.safetensors").exists() && !workshop.path("out.csv").exists());
    }
}
