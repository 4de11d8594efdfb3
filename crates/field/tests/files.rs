//! Volumes of other programs, with the values those programs find in them.

use gausset_field::input::{self, Input, Volume};
use gausset_testkit::data_file;

fn volume(test: &str, name: &str, frame: usize) -> Option<Volume> {
    let folder = data_file(test, "volume")?;
    match input::read(&folder.join(name), frame).unwrap() {
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
    // The sform is oblique: not the spacings alone.
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
            let wrong = input::read(&path, 0).unwrap_err().to_string();
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
        input::read(&path, 0).unwrap_err().to_string()
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
        let samples = input::read(&path, 0).unwrap().samples();
        assert_eq!((samples.points, samples.values), (vec![[1.0, 2.0, 3.0]], vec![4.0]), "{text}");
    }
}
