//! Tests of files through the public interface.

#[cfg(unix)]
mod atomic_crash;
mod atomic_faults;
#[cfg(unix)]
mod atomic_run_folder;
mod container_damage;
mod corpus;
mod dataset_cameras;
mod dataset_colmap;
mod dataset_exports;
mod dataset_init;
mod dataset_layouts;
mod dataset_loader;
mod dataset_mistakes;
mod dataset_names;
mod dataset_open;
mod dataset_orientation;
mod dataset_panorama;
mod dataset_scenes;
mod dataset_support;
mod dataset_transforms;
mod files;
mod image_pictures;
mod memory;
mod splat_damage;
mod splat_formats;
mod splat_ply;
mod splat_strangers;
mod splat_streamed;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;
