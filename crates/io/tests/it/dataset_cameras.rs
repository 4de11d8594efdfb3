//! Camera models compared with golden values, with each other and with their own inverses.

use CameraModel as M;
use gausset_io::dataset::camera_model::{CameraModel, CameraModelError, SourceCamera};
use gausset_io::dataset::lens::Lens;
use proptest::prelude::*;

/// One camera of each model with the parameters of the golden table, and the pixel of (0.4, -0.3, 1).
fn golden() -> Vec<(CameraModel, Vec<f64>, [f64; 2])> {
    let two = [500.0, 510.0, 320.0, 240.0];
    let one = [500.0, 320.0, 240.0];
    let with = |start: &[f64], rest: &[f64]| [start, rest].concat();
    vec![
        (M::SimplePinhole, one.to_vec(), [520.0, 90.0]),
        (M::Pinhole, two.to_vec(), [520.0, 87.0]),
        (M::SimpleRadial, with(&one, &[0.1]), [525.0, 86.25]),
        (M::Radial, with(&one, &[0.1, -0.05]), [524.375, 86.71875]),
        (M::OpenCv, with(&two, &[0.1, -0.05, 0.001, -0.002]), [523.685, 84.117225]),
        (M::OpenCvFisheye, with(&two, &[0.1, -0.05, 0.02, -0.01]), [509.050208, 95.376591]),
        (
            M::FullOpenCv,
            with(&two, &[0.1, -0.05, 0.001, -0.002, 0.02, 0.03, -0.01, 0.005]),
            [522.335836, 85.1493355],
        ),
        (M::Fov, with(&two, &[0.9]), [520.0, 87.0]),
        (M::SimpleRadialFisheye, with(&one, &[0.1]), [509.44584, 97.9156199]),
        (M::RadialFisheye, with(&one, &[0.1, -0.05]), [509.017321, 98.2370092]),
        (
            M::ThinPrismFisheye,
            with(&two, &[0.1, -0.05, 0.001, -0.002, 0.02, -0.01, 0.003, -0.004]),
            [508.779347, 95.3371227],
        ),
        (
            M::RadTanThinPrismFisheye,
            with(
                &two,
                &[0.1, -0.05, 0.02, -0.01, 0.004, -0.001, 0.001, -0.002, 0.003, -0.001, 0.002, 0.0005],
            ),
            [509.829734, 95.1156563],
        ),
        (M::SimpleDivision, with(&one, &[-0.1]), [515.235393, 93.5734555]),
        (M::Division, with(&two, &[-0.1]), [515.235393, 90.6449246]),
        (M::SimpleFisheye, one.to_vec(), [505.459044, 100.905717]),
        (M::Fisheye, two.to_vec(), [505.459044, 98.1238316]),
        (M::Eucm, with(&two, &[0.6, 1.1]), [505.615644, 98.0040325]),
        (M::Equirectangular, vec![2048.0, 1024.0], [1148.0258, 423.453544]),
    ]
}

fn assert_lands(lens: &Lens, ray: [f64; 3], expected: [f64; 2], relative: f64) {
    let found = lens.project(ray).unwrap();
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= relative * b.abs(), "{:?}: {found:?}, expected {expected:?}", lens.model());
    }
}

#[test]
fn every_model_projects_to_its_golden_pixel() {
    let golden = golden();
    assert_eq!(golden.len(), CameraModel::ALL.len());
    for (i, (model, params, expected)) in golden.into_iter().enumerate() {
        assert_eq!(usize::from(model.id()), i);
        assert_eq!(model.parameters().len(), params.len());
        // The table has nine digits.
        assert_lands(&Lens::new(model, &params), [0.4, -0.3, 1.0], expected, 6e-9);
    }
}

#[test]
fn the_field_of_view_model_projects_to_its_golden_pixel() {
    let lens = Lens::new(M::Fov, &[500.0, 510.0, 320.0, 240.0, 0.9]);
    assert_lands(&lens, [0.6, -0.2, 1.0], [609.076607, 141.713954], 6e-9);
}

#[test]
fn cameras_of_real_scenes_project_as_their_program_does() {
    let south = Lens::new(M::SimpleRadial, &[665.721884, 400.0, 300.0, -0.0216936343]);
    assert_lands(&south, [0.3, -0.2, 1.0], [599.153330, 167.231113], 1e-7);
    assert_lands(&south, [-0.55, 0.35, 1.0], [37.228764, 530.854423], 1e-7);
    let brighton = Lens::new(
        M::OpenCv,
        &[760.819229, 757.271871, 500.0, 281.0, 0.0222115889, 0.0492459143, -0.00143640762, 0.00242944018],
    );
    assert_lands(&brighton, [0.3, -0.2, 1.0], [729.798923, 128.533054], 1e-7);
    assert_lands(&brighton, [-0.55, 0.35, 1.0], [76.201708, 549.467654], 1e-7);
    let fisheye = Lens::new(M::OpenCvFisheye, &[456.0, 457.824, 239.0, 181.5, 0.06, -0.035, 0.012, -0.004]);
    assert_lands(&fisheye, [0.0, 0.0, 1.0], [239.0, 181.5], 1e-12);
    assert_lands(&fisheye, [0.3, -0.2, 1.0], [371.175420, 93.030585], 1e-7);
    assert_lands(&fisheye, [0.6, 0.4, 1.0], [480.475416, 343.127545], 1e-7);
    assert_lands(&fisheye, [-0.5, 0.45, 1.0], [34.843121, 365.976156], 1e-7);
}

#[test]
fn ids_and_names_lead_back_to_the_model() {
    for model in CameraModel::ALL {
        assert_eq!(CameraModel::from_id(i32::from(model.id())), Some(model));
        assert_eq!(CameraModel::from_name(model.name()), Some(model));
    }
    assert_eq!(CameraModel::from_id(18), None);
    assert_eq!(CameraModel::from_id(-1), None);
    assert_eq!(CameraModel::from_name("pinhole"), None);
}

#[test]
fn a_distortion_that_folds_back_ends_at_the_fold() {
    // r (1 - 0.3 r²) grows up to r = 1 / sqrt(0.9).
    let lens = Lens::new(M::SimpleRadial, &[100.0, 0.0, 0.0, -0.3]);
    let fold = 1.0 / 0.9f64.sqrt();
    assert!(lens.project([fold * 0.999, 0.0, 1.0]).is_some());
    assert!(lens.project([fold * 1.001, 0.0, 1.0]).is_none());
    // The farthest pixel of any ray is at fold (1 - 0.3 fold²) = 2/3 fold.
    assert!(lens.unproject([66.6 * fold, 0.0]).is_some());
    assert!(lens.unproject([66.7 * fold, 0.0]).is_none());
}

#[test]
fn perspective_models_have_no_pixel_behind_the_camera_and_wide_ones_do() {
    for (model, params, _) in golden() {
        let behind = Lens::new(model, &params).project([0.8, 0.1, -0.1]);
        match model {
            M::SimpleFisheye
            | M::Fisheye
            | M::Eucm
            | M::Equirectangular
            | M::SimpleDivision
            | M::Division => {
                assert!(behind.is_some(), "{model:?}");
            }
            _ if !model.name().contains("FISHEYE") => assert!(behind.is_none(), "{model:?}"),
            _ => {}
        }
    }
}

#[test]
fn parameters_that_are_not_a_camera_are_refused_with_model_and_name() {
    let line = |model, w, h, params: &[f64]| {
        SourceCamera::new(1, model, w, h, params.to_vec()).unwrap_err().to_string()
    };
    assert_eq!(
        line(M::OpenCv, 10, 10, &[1.0; 6]),
        "OPENCV needs 8 parameters (fx, fy, cx, cy, k1, k2, p1, p2), found 6"
    );
    assert_eq!(
        line(M::Pinhole, 10, 10, &[1.0, f64::NAN, 0.0, 0.0]),
        "PINHOLE parameter fy is NaN (expected a finite number)"
    );
    assert_eq!(
        line(M::SimplePinhole, 10, 10, &[-3.0, 0.0, 0.0]),
        "SIMPLE_PINHOLE parameter f is -3 (expected > 0)"
    );
    assert_eq!(
        line(M::Eucm, 10, 10, &[1.0, 1.0, 0.0, 0.0, 1.5, 1.0]),
        "EUCM parameter alpha is 1.5 (expected 0..1)"
    );
    assert_eq!(
        line(M::Pinhole, 0, 1 << 40, &[1.0; 4]),
        "image size is 0x1099511627776 px (expected 1..32768 a side)"
    );
    assert!(matches!(
        SourceCamera::new(1, M::Fov, 10, 10, vec![1.0, 1.0, 0.0, 0.0, 3.2]),
        Err(CameraModelError::OutOfRange { name: "omega", .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// The tolerance is what f64 leaves of a ray after Newton's iteration stops at 1e-13 of the picture plane.
    #[test]
    fn unprojecting_a_projected_ray_gives_the_ray(index in 0usize..18, x in -0.8f64..0.8, y in -0.8f64..0.8) {
        let (model, params, _) = golden().swap_remove(index);
        let lens = Lens::new(model, &params);
        let norm = (x * x + y * y + 1.0f64).sqrt();
        let ray = [x / norm, y / norm, 1.0 / norm];
        let Some(pixel) = lens.project(ray) else {
            // In front of the camera, only a fold may have no pixel.
            prop_assert!((x * x + y * y).sqrt() > 0.9, "{model:?} refuses {ray:?}");
            return Ok(());
        };
        let back = lens.unproject(pixel).unwrap();
        for k in 0..3 {
            prop_assert!((back[k] - ray[k]).abs() < 1e-9, "{model:?}: {back:?} for {ray:?}");
        }
    }

    #[test]
    fn a_lens_of_a_scaled_picture_sees_scaled_pixels(index in 0usize..18, x in -0.5f64..0.5, y in -0.5f64..0.5) {
        let (model, params, _) = golden().swap_remove(index);
        let lens = Lens::new(model, &params);
        if let (Some(a), Some(b)) = (lens.project([x, y, 1.0]), lens.scaled(0.5, 0.25).project([x, y, 1.0])) {
            prop_assert!((a[0] * 0.5 - b[0]).abs() < 1e-9 && (a[1] * 0.25 - b[1]).abs() < 1e-9);
        }
    }

    #[test]
    fn no_parameters_or_rays_make_a_lens_panic_or_return_what_is_not_a_number(
        index in 0usize..18,
        params in proptest::collection::vec(proptest::num::f64::ANY, 16),
        ray in proptest::array::uniform3(proptest::num::f64::ANY),
        pixel in proptest::array::uniform2(proptest::num::f64::ANY),
    ) {
        let lens = Lens::new(CameraModel::ALL[index], &params);
        if let Some(p) = lens.project(ray) {
            prop_assert!(p.iter().all(|v| v.is_finite()));
        }
        if let Some(d) = lens.unproject(pixel) {
            prop_assert!(d.iter().all(|v| v.is_finite()));
        }
    }
}
