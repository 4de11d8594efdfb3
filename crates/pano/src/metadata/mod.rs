//! EXIF and XMP: what a panorama says about itself, and what its views are given.
//!
//! `read`: Make, Model, DateTimeOriginal, Orientation, the GPS directory, the GPano packet, the ICC profile. `gpano`: how
//! a picture shows the sphere, by its size and its packet. `write`: what each view gets while it is encoded, as one APP1
//! each: those facts (heading turned with the view), the focal length, and a packet of our own with the frame and the
//! angles of the view. Thumbnails, maker notes, serial numbers and GPano are left out: none of them is true of a view.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod gpano;
mod read;
mod write;

pub use gpano::{GPano, NotEquirect, parse_gpano};
pub use read::{Metadata, Position};
pub use write::{XMP_NAMESPACE, xmp_packet};
