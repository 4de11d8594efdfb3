//! Volumes of other programs, with the values that those programs read from them.

use std::path::Path;

use gausset_compute::SimdLevel;
use gausset_field::fit::Grid;
use gausset_field::input::{self, Input, ReadRequest, Volume};
use gausset_field::model::FieldModel;
use gausset_field::{Compute, CovarianceKind, Evaluator, GaussianField, WeightMode};
use gausset_testkit::{data_file, testdata_dir};

fn volume(test: &str, name: &str, frame: usize) -> Option<Volume> {
    let folder = data_file(test, "volume")?;
    match input::read(&folder.join(name), &ReadRequest { frame, ..ReadRequest::default() }).unwrap() {
        Input::Volume(volume) => Some(volume),
        Input::Samples(_) => panic!("{name}: samples"),
    }
}

fn at(volume: &Volume, [i, j, k]: [usize; 3]) -> f64 {
    volume.values[i + volume.dims[0] * (j + volume.dims[1] * k)]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_nifti_with_two_frames() {
    let test = "a_nifti_with_two_frames";
    let Some(first) = volume(test, "mri_example4d.nii.gz", 0) else { return };
    let second = volume(test, "mri_example4d.nii.gz", 1).unwrap();
    assert_eq!((first.dims, first.frames), ([128, 96, 24], 2));
    assert_eq!(at(&second, [64, 48, 12]), 266.0);
    let both = 0.5 * (mean(&first.values) + mean(&second.values));
    assert!((both - 172.908_114_963_107_64).abs() < 1e-9, "{both}");
    assert!((first.spacing[2] - 2.199_999).abs() < 1e-5);
    // The sform is oblique: more than the spacings.
    assert!(first.world_from_index[1][2] != 0.0);
}

#[test]
fn a_big_endian_nifti_and_one_with_a_slope() {
    let test = "a_big_endian_nifti_and_one_with_a_slope";
    let Some(big) = volume(test, "mri_anatomical_be.nii", 0) else { return };
    assert_eq!([[0, 0, 0], [0, 0, 1], [16, 20, 12]].map(|i| at(&big, i)), [10712.0, 8026.0, 11881.0]);
    assert!((mean(&big.values) - 8_401.066_725_794_532).abs() < 1e-9);
    let scaled = |frame| volume(test, "mri_functional_scaled.nii", frame).unwrap();
    assert!((at(&scaled(1), [0, 0, 0]) - 4_039.729_291_68).abs() < 1e-6);
    assert!((at(&scaled(10), [8, 10, 1]) - 3_937.251_221_358_776).abs() < 1e-6);
}

#[test]
fn nrrd_in_its_encodings() {
    let test = "nrrd_in_its_encodings";
    let Some(tooth) = volume(test, "ct_tooth_be_gz.nrrd", 0) else { return };
    assert_eq!(tooth.dims, [103, 94, 161]);
    assert_eq!([[51, 47, 80], [30, 40, 100]].map(|i| at(&tooth, i)), [783.0, 817.0]);
    assert!((mean(&tooth.values) - 526.871_013_765_699_6).abs() < 1e-9);
    let gz = volume(test, "ball30_gz.nrrd", 0).unwrap();
    let bz2 = volume(test, "ball30_bz2.nrrd", 0).unwrap();
    assert_eq!(gz, bz2);
    assert_eq!(gz.values.iter().sum::<f64>(), 3_682_296.0);
    let ascii = volume(test, "ascii2d.nrrd", 0).unwrap();
    assert_eq!(ascii.values, (1..=27).map(f64::from).collect::<Vec<_>>());
    assert!((ascii.spacing[0] - 1.0458).abs() < 1e-12);
}

#[test]
fn a_cut_off_file_is_refused_wherever_it_is_cut() {
    let test = "a_cut_off_file_is_refused_wherever_it_is_cut";
    let Some(folder) = data_file(test, "volume") else { return };
    let scratch = tempfile::tempdir().unwrap();
    for name in ["ball30_gz.nrrd", "ball30_bz2.nrrd", "ascii2d.nrrd", "mri_anatomical_be.nii"] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        for share in [0, 1, 10, 50, 90] {
            let path = scratch.path().join(name);
            std::fs::write(&path, &bytes[..bytes.len() * share / 100]).unwrap();
            let wrong = input::read(&path, &ReadRequest::default()).unwrap_err().to_string();
            assert!(wrong.contains(name) && !wrong.contains('\n'), "{share} %: {wrong}");
        }
    }
}

#[test]
fn tables_and_arrays_say_where_they_are_wrong() {
    let scratch = tempfile::tempdir().unwrap();
    let wrong = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        input::read(&path, &ReadRequest::default()).unwrap_err().to_string()
    };
    assert!(wrong("a.csv", b"x,y,z,v\n1,2,3,4\n1,2,3,inf\n").contains("line 3: not finite"));
    assert!(wrong("a.csv", b"1,2,3,4\n1,2,x,4\n").contains("line 2: not a row"));
    assert!(wrong("a.csv", b"\n\n").contains("no rows"));
    assert!(wrong("a.npy", b"NUMPY").contains("not a .npy file"));
    assert!(wrong("a.npz", b"PK").contains("archive"));
    assert!(wrong("a.tif", b"II*\0").contains("page 0"));
    assert!(wrong("a.nii", &[0; 400]).contains("header"));
    assert!(wrong("a.xyz", b"").contains("no known format"));
}

#[test]
fn tables_may_be_separated_in_every_usual_way() {
    let scratch = tempfile::tempdir().unwrap();
    for text in
        ["1,2,3,4\n", "x y z value\n1  2 3 4\n", "1;2;3;4", "x\ty\tz\tv\n1\t2\t3\t4\n", "# c\n1, 2, 3, 4\n"]
    {
        let path = scratch.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        let samples = input::read(&path, &ReadRequest::default()).unwrap().samples();
        assert_eq!((samples.points, samples.values), (vec![[1.0, 2.0, 3.0]], vec![4.0]), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_name_that_is_no_text_is_read() {
    use std::os::unix::ffi::OsStrExt as _;
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.csv"));
    std::fs::write(&path, "1,2,3,4\n").unwrap();
    assert_eq!(input::read(&path, &ReadRequest::default()).unwrap().samples().values, [4.0]);
}

#[test]
fn columns_are_taken_by_their_names_with_units_and_unknown_names_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        let path = scratch.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        input::read(&path, &ReadRequest::default())
    };
    for text in [
        "value [HU];z (mm);y (mm);x (mm)\n4;3;2;1\n",
        "Temperature,Easting,Northing,Elevation\n4,1,2,3\n",
        "value,pos_x,pos_y,pos_z\n4,1,2,3\n",
        "x_coord,y_coord,z_coord,value\n1,2,3,4\n",
        "V1,V2,V3,V4\n1,2,3,4\n",
        "a,b,c,value\n1,2,3,4\n",
        "x;y;z;value\n1,0;2,0;3,0;0,4e1\n",
        "1,0\t2,0\t3,0\t4,0\n",
    ] {
        let samples = read(text).unwrap_or_else(|e| panic!("{text}: {e}")).samples();
        assert_eq!((samples.points, samples.values), (vec![[1.0, 2.0, 3.0]], vec![4.0]), "{text}");
    }
    for header in ["value,a,b,c", "temperature,row,column,layer"] {
        let line = read(&format!("{header}\n4,1,2,3\n")).unwrap_err().to_string();
        assert!(line.contains("header: names no coordinates") && !line.contains('\n'), "{line}");
        assert!(line.contains(&header.replace(',', " ")), "{line}");
    }
    assert!(read("x;y;z;v\n1.000,5;2;3;4\n").unwrap_err().to_string().contains("line 2: not a row"));
}

/// Version 0.2.0 fitted this file with `field fit -n 2 --solver lm` to 24 x 20 x 16 voxels of `10 + two bumps`, 0.5, 0.75
/// and 1 apart, the first of them at (-3, 2, 1).
#[test]
fn a_field_file_of_02_has_the_values_it_was_fitted_to() {
    let model = FieldModel::load(&testdata_dir().join("v0.2/field.safetensors")).unwrap();
    assert_eq!((model.field.len(), model.offset), (2, 10.0));
    assert_eq!(model.grid, Some(Grid { dims: [24, 20, 16], spacing: [0.5, 0.75, 1.0] }));
    let bounds = model.field.bounds.unwrap();
    assert_eq!((bounds.lo, bounds.hi), ([-0.25, -0.375, -0.5], [11.75, 14.625, 15.5]));
    let to_model = model.model_from_world().unwrap();
    let world = [[0.5, 7.0, 7.0], [5.0, 11.0, 10.0], [1.5, 8.0, 6.0], [4.2, 11.9, 11.0], [-2.0, 3.0, 2.0]];
    let points = world.map(|x: [f64; 3]| to_model.map(|[a, b, c, t]| a * x[0] + b * x[1] + c * x[2] + t));
    assert_eq!(points[0], [3.5, 5.0, 6.0]);
    let compute = Compute::new(1, SimdLevel::Auto).unwrap();
    let found = Evaluator::new(&compute, &model.field).unwrap().values(&points).unwrap();
    for ([x, y, z], f) in world.into_iter().zip(found) {
        let round =
            ((x - 0.5) / 1.0f64).powi(2) + ((y - 7.0) / 0.9f64).powi(2) + ((z - 7.0) / 1.5f64).powi(2);
        let (u, v) = (0.8 * (x - 5.0) + 0.6 * (y - 11.0), -0.6 * (x - 5.0) + 0.8 * (y - 11.0));
        let turned = (u / 1.6f64).powi(2) + (v / 0.8f64).powi(2) + ((z - 10.0) / 1.2f64).powi(2);
        let truth = 10.0 + 1.5 * (-0.5 * round).exp() - 0.75 * (-0.5 * turned).exp();
        // The fit itself is off by 1.3e-7 on the average: voxels and parameters are f32.
        let value = model.value(f);
        assert!((value - truth).abs() < 1e-6, "({x}, {y}, {z}): {value}, not {truth}");
    }
}

/// An NRRD header whose eight bytes of data are in another file.
fn detached(folder: &Path, name: &str) -> String {
    let header =
        format!("NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\ndata file: {name}\n\n");
    let path = folder.join("volume.nhdr");
    std::fs::write(&path, header).unwrap();
    match input::read(&path, &ReadRequest::default()) {
        Ok(input) => format!("{:?}", input.samples().values.iter().sum::<f64>()),
        Err(error) => error.to_string().replace(&format!("{}: ", path.display()), ""),
    }
}

#[test]
fn a_header_names_data_in_its_own_folder_or_below_and_nowhere_else() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("volume");
    std::fs::create_dir_all(folder.join("raw")).unwrap();
    for path in [folder.join("a.raw"), folder.join("raw/a.raw"), scratch.path().join("a.raw")] {
        std::fs::write(path, [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    }
    let within = folder.join("raw/a.raw").display().to_string();
    for name in ["a.raw", "./a.raw", "raw/a.raw", "raw/../a.raw", &within] {
        assert_eq!(detached(&folder, name), "36.0", "{name}");
    }
    let without = scratch.path().join("a.raw").display().to_string();
    for name in ["../a.raw", "raw/../../a.raw", "/etc/passwd", &without] {
        let refusal = detached(&folder, name);
        let expected = "leads out of its folder (expected a file below the folder of the file that names it)";
        assert!(refusal.starts_with("data file ") && refusal.ends_with(expected), "{name}: {refusal}");
    }
    assert_eq!(detached(&folder, "b.raw"), "data file \"b.raw\": no such file or folder");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_wherever_they_are_named() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
    for (target, reason) in [("pipe", "is a pipe"), ("zero", "is a device")] {
        for name in ["a.csv", "a.npy", "a.npz", "a.nrrd", "a.nii", "a.nii.gz", "a.hdr", "a.tif"] {
            std::os::unix::fs::symlink(target, at(name)).unwrap();
            let refusal = input::read(&at(name), &ReadRequest::default()).unwrap_err().to_string();
            assert!(refusal.contains(name) && refusal.contains(reason), "{refusal}");
            let refusal = input::read_points(&at(name)).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
            let refusal = FieldModel::load(&at(name)).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
            std::fs::remove_file(at(name)).unwrap();
        }
        let refusal = detached(scratch.path(), target);
        assert!(refusal.starts_with(&format!("data file \"{target}\": {reason}")), "{refusal}");
    }
}

#[test]
fn numbers_too_large_or_thin_for_f32_are_kept_in_f64() {
    for (weight, l20, l22) in [(1e40, 0.0, 0.0), (1.0, 0.5, -24.0)] {
        let chol = vec![[0.0, 0.5, 0.0, l20, 0.0, l22]];
        let kind = CovarianceKind::Full;
        let field = GaussianField::new(vec![[0.0; 3]], chol, vec![weight], WeightMode::Raw, kind).unwrap();
        let model = FieldModel::from_field(field);
        let bytes = model.to_bytes();
        assert!(String::from_utf8_lossy(&bytes).contains("\"F64\""));
        assert_eq!(FieldModel::parse(&bytes).unwrap(), model);
    }
    let (means, chol) = (vec![[0.0f32; 3]; 2], vec![[0.0; 6]; 2]);
    let heavy = GaussianField::new(means, chol, vec![1.0, 1e19], WeightMode::Raw, CovarianceKind::Full);
    let refusal = heavy.unwrap_err().to_string();
    assert!(refusal.starts_with("weights: row 1: "), "{refusal}");
}

#[test]
fn a_model_whose_voxels_are_no_numbers_of_voxels_is_refused() {
    let mut model = FieldModel::load(&testdata_dir().join("v0.2/field.safetensors")).unwrap();
    let again = |from: &str, to: &str| {
        let bytes = model.to_bytes();
        let length = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap().replace(from, to);
        let mut changed = (header.len() as u64).to_le_bytes().to_vec();
        changed.extend(header.bytes());
        changed.extend(&bytes[8 + length..]);
        FieldModel::parse(&changed).map(|model| model.grid)
    };
    assert!(again("24 20 16", "24 20 17").is_ok());
    for dims in ["24.5 20 16", "0 20 16", "-1 20 16", "1e9 20 16", "inf 20 16", "24 20"] {
        let refusal = again("24 20 16", dims).unwrap_err();
        assert!(refusal.to_string().starts_with("metadata: dims"), "{dims}: {refusal}");
    }
    model.grid = None;
    assert_eq!(FieldModel::parse(&model.to_bytes()).unwrap().grid, None);
}
