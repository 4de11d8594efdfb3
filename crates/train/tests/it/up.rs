//! Up of real scenes: that of the images, except for photographs of a mapping flight.

use gausset_core::se3;
use gausset_io::dataset::{self, Dataset, OpenOptions};
use gausset_testkit::data_file;
use gausset_train::{Up, up};

/// The normalised mean of the negated axes `row` of the training cameras.
fn mean_axis(dataset: &Dataset, row: usize) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for &index in &dataset.split.train {
        sum = se3::sub(sum, dataset.images[index].pose.rotation[row]);
    }
    let length = se3::norm(sum);
    sum.map(|v| v / length)
}

#[test]
fn up_of_ordinary_scenes_is_that_of_their_images_and_of_a_flight_the_way_back_from_the_ground() {
    let test = "up_of_ordinary_scenes_is_that_of_their_images_and_of_a_flight_the_way_back_from_the_ground";
    for (scene, row) in [
        ("alexander", 1),
        ("batmobile", 1),
        ("boruszyn", 1),
        ("brighton", 2),
        ("carton", 1),
        ("castle", 1),
        ("fox", 1),
        ("lund", 1),
        ("plush", 1),
        ("saharov", 1),
        ("south_building", 1),
        ("studio", 1),
        ("table", 1),
    ] {
        let Some(folder) = data_file(test, &format!("scenes/{scene}")) else { continue };
        let dataset = dataset::open(&folder, &OpenOptions::default()).unwrap();
        let (found, expected) = (up::direction_of(Up::Auto, &dataset).unwrap(), mean_axis(&dataset, row));
        assert!(se3::distance(found, expected) < 1e-9, "{scene}: {found:?}, expected {expected:?}");
    }
}
