//! Masks on the sphere.

pub mod mask_names;
pub mod sphere_mask;
