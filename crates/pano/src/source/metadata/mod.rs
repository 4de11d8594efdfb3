//! EXIF and XMP metadata of panoramas and their views.
//!
//! `read`: Make, Model, DateTimeOriginal, Orientation, the GPS directory, the GPano packet, the ICC profile. `dji`: the position of a DJI drone. `gpano`:
//! the part of the sphere that an image shows, by its size and its packet. `write`: the APP1 segments of each view:
//! these fields (with the heading rotated to the view), the focal length, and a Gausset XMP packet with the frame and
//! the angles of the view. Thumbnails, maker notes, serial numbers and GPano are left out, because they do not apply to
//! a view.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod dji;
mod gpano;
mod read;
mod write;

pub use gpano::{EquirectError, GPano, parse_gpano};
pub use read::{GpsPosition, Metadata};
pub use write::{XMP_NAMESPACE, xmp_packet};
