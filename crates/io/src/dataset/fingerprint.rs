//! The fingerprint of a dataset: whether a run goes on with the data that it began with.
//!
//! XXH3 (128 bits) over everything that training depends on, apart from the pixels themselves: those are
//! represented by sizes and file lengths. Options that are recorded elsewhere (resolution, split) are left out.

use xxhash_rust::xxh3::Xxh3;

use super::Dataset;

/// 32 hexadecimal digits.
pub(super) fn of(dataset: &Dataset) -> String {
    let mut hash = Xxh3::new();
    let number = |hash: &mut Xxh3, v: u64| hash.update(&v.to_le_bytes());
    let real = |hash: &mut Xxh3, v: f64| hash.update(&v.to_bits().to_le_bytes());
    number(&mut hash, dataset.images.len() as u64);
    for image in &dataset.images {
        number(&mut hash, image.name.len() as u64);
        hash.update(image.name.as_bytes());
        number(&mut hash, image.file_bytes);
        image.stored_size.iter().for_each(|&v| number(&mut hash, u64::from(v)));
        let camera = &dataset.cameras[image.source_camera];
        number(&mut hash, u64::from(camera.model.id()));
        number(&mut hash, u64::from(camera.width));
        number(&mut hash, u64::from(camera.height));
        camera.params.iter().for_each(|&v| real(&mut hash, v));
        image.pose.rotation.iter().flatten().chain(&image.pose.translation).for_each(|&v| real(&mut hash, v));
        let mask_bytes = image.mask.as_ref().and_then(|m| std::fs::metadata(m).ok()).map(|m| m.len());
        number(&mut hash, mask_bytes.unwrap_or(u64::MAX));
    }
    number(&mut hash, dataset.points.len() as u64);
    for point in &dataset.points {
        point.position.iter().for_each(|&v| real(&mut hash, v));
        hash.update(&point.colour);
    }
    format!("{:032x}", hash.digest128())
}
