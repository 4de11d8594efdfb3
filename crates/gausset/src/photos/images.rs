//! The images to align: a folder of photographs, or frames extracted from a video.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_io::atomic::{Disk, FileSystem, Overwrite};
use gausset_io::dataset::{find_masks, mask_folder};
use gausset_io::image::{read_header, read_heif_header};
use gausset_io::ownership;
use gausset_io::text::natural_order;
use gausset_io::unfinished_folder::UnfinishedFolder;
use gausset_pano::frames::video_frames;
use gausset_pano::selection::{FRAMES_FILE, FrameContent, SelectBy};
use gausset_pano::video::{FrameSelection, Video, extract};
use gausset_sfm::PairChoice;
use gausset_sfm::align::check_frame_count;
use gausset_sfm::model::FrameImages;
use serde_json::{Value, json};

use super::alignment::LeftOut;
use super::copies::{Photographs, usable_images};
use super::full_sphere;
use super::heif::HeifPhotographs;
use super::list::has_one_lens_per_folder;
use super::{PhotoOptions, PhotographList};
use crate::frame_selection::{select, warn_of_colours};
use crate::{CountedItem, Event, FILES_LEFT_OUT, Failure, Host, Stage, records};

/// Name of the frame folder in the output folder, and the purpose in its ownership marker.
const FRAMES: &str = "frames";
/// File name of the record in the frame folder.
const FRAMES_RECORD: &str = "frames.json";
/// Maximum width and height of a video frame in pixels.
const LARGEST_FRAME: [u32; 2] = [16_384, 16_384];

/// Source of the images.
pub(super) enum ImageSource {
    Photographs(Photographs),
    Video(Box<Video>),
}

/// Images of one or more cameras.
pub(super) struct ImageSet {
    pub(super) folder: PathBuf,
    /// Whether they are frames of one video: one camera, consecutive in time.
    pub(super) is_video: bool,
    /// The images; each is its own frame.
    pub(super) frames: Vec<FrameImages>,
    /// Whether there are several folders, each with pictures of one size: a camera for each.
    pub(super) has_camera_per_folder: bool,
    /// The pairs to match.
    pub(super) pairs: PairChoice,
    /// The photographs that cannot be read.
    pub(super) unreadable: Vec<LeftOut>,
    /// Originals of the copies without metadata, by the names of the copies.
    pub(super) originals: BTreeMap<String, PathBuf>,
    /// The folder of their masks: the given one, or the one that training finds beside the photographs.
    pub(super) mask_folder: Option<PathBuf>,
}

impl ImageSet {
    /// The file with the metadata of an image: the image itself, or the original of a copy that has none.
    pub(super) fn file_with_metadata(&self, name: &str) -> PathBuf {
        self.originals.get(name).cloned().unwrap_or_else(|| self.folder.join(name))
    }

    /// The masks, by the names of the images.
    pub(super) fn masks(&self) -> BTreeMap<String, PathBuf> {
        let names: Vec<&str> = self.frames.iter().map(|frame| frame.name.as_str()).collect();
        let found = find_masks(self.mask_folder.as_deref(), &self.folder, &names);
        names.iter().zip(found).filter_map(|(name, mask)| Some(((*name).to_owned(), mask?))).collect()
    }

    /// The frames of a video in their folder.
    fn of_video(folder: PathBuf) -> Result<Self, Failure> {
        let frames = frames_of(PhotographList::of_folder(&folder, &[])?.names);
        Ok(Self {
            folder,
            is_video: true,
            frames,
            has_camera_per_folder: false,
            pairs: PairChoice::Auto,
            unreadable: Vec::new(),
            originals: BTreeMap::new(),
            mask_folder: None,
        })
    }
}

/// Each image as its own frame.
fn frames_of(names: Vec<String>) -> Vec<FrameImages> {
    names.into_iter().map(|name| FrameImages { name: name.clone(), images: vec![name] }).collect()
}

/// Checks the input before anything is written.
pub(super) fn source(options: &PhotoOptions, host: &Host<'_>) -> Result<ImageSource, Failure> {
    let PhotoOptions { photos, lens, tool, .. } = options;
    lens.check_inputs()?;
    if !photos.is_file() {
        let excluded: Vec<&Path> = [Some(&options.output), lens.masks.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect();
        let mut list = PhotographList::of_folder(photos, &excluded)?;
        let heif = HeifPhotographs::check(&mut list, photos, tool.tool_timeout(), host.stop());
        let headers = list.check(photos)?;
        check_frame_count(photos, headers.len() + heif.headers.len(), false)?;
        lens.refuse_video_options()?;
        full_sphere::refuse_folder(photos, &list.names, lens.camera_model)?;
        return Ok(ImageSource::Photographs(Photographs { list, headers, heif }));
    }
    if read_header(photos).is_ok() || read_heif_header(photos).is_ok() {
        let line =
            format!("{}: is an image (expected a folder of photographs, or a video)", photos.display());
        return Err(Failure::new("frames", line));
    }
    lens.selection()?;
    let choice = FrameSelection { start: lens.start(), end: lens.end, ..FrameSelection::default() };
    let video = Video::open(photos, choice, LARGEST_FRAME, tool.tool_timeout(), host.stop());
    let video = video.map_err(|e| Failure::new("video", e))?;
    full_sphere::refuse_video(&video, lens.camera_model, host)?;
    Ok(ImageSource::Video(Box::new(video)))
}

/// Returns the photographs, or extracts the frames of a video to `output/frames`, with the pairs to match.
pub(super) fn prepare_images(
    options: &PhotoOptions,
    source: ImageSource,
    host: &mut Host<'_>,
) -> Result<ImageSet, Failure> {
    let images = images_of(options, source, host)?;
    let pairs = options.lens.pairs.choose(&images.frames)?;
    // Copies have none beside them.
    let place = if images.is_video { &images.folder } else { &options.photos };
    let mask_folder = options.lens.masks.clone().or_else(|| mask_folder(&options.output, place));
    Ok(ImageSet { pairs, mask_folder, ..images })
}

fn images_of(options: &PhotoOptions, source: ImageSource, host: &mut Host<'_>) -> Result<ImageSet, Failure> {
    let video = match source {
        ImageSource::Photographs(photographs) => {
            for line in &photographs.list.left_out {
                host.warn(FILES_LEFT_OUT, format!("{}: {line}", options.photos.display()));
            }
            let has_camera_per_folder = has_one_lens_per_folder(photographs.lenses());
            let (folder, mut names, undecoded) = usable_images(options, &photographs, host)?;
            if options.lens.sequence {
                names.sort_by(|a, b| natural_order(a, b));
            }
            check_frame_count(&options.photos, names.len(), false)?;
            return Ok(ImageSet {
                folder,
                is_video: false,
                frames: frames_of(names),
                has_camera_per_folder,
                pairs: PairChoice::Auto,
                unreadable: [photographs.list.unreadable.clone(), undecoded].concat(),
                originals: photographs.originals(&options.photos),
                mask_folder: None,
            });
        }
        ImageSource::Video(video) => video,
    };
    let folder = options.output.join(FRAMES);
    let record = frames_record(options, &video);
    if !ownership::is_gausset_owned(&folder, FRAMES) {
        refuse_unowned(&folder)?;
    } else {
        let known = records::read_record(&folder.join(FRAMES_RECORD)).unwrap_or_default();
        let differences = records::differences(&known, &record);
        if differences.is_empty() {
            return ImageSet::of_video(folder);
        }
        if options.overwrite == Overwrite::Refuse {
            return Err(records::other_options(&folder, &differences));
        }
    }
    // Report a missing COLMAP before the work begins.
    options.find_aligner(host)?;
    warn_of_colours(&video, host);
    let selection = match options.lens.selection()? {
        Some(wanted) => {
            Some(select(&video, &FrameContent::Pinhole, &wanted, None, &folder.join(FRAMES_FILE), host)?)
        }
        None => None,
    };
    let video = match &selection {
        Some(selection) => video.with_selected(&selection.kept_frames()),
        None => *video,
    };
    let draft = UnfinishedFolder::new(&Disk, &options.output, FRAMES)?;
    extract_frames(options, &video, draft.path(), host)?;
    if let Some(selection) = selection {
        selection.write(&draft.path().join(FRAMES_FILE), Overwrite::Refuse)?;
    }
    records::write_record(&draft.path().join(FRAMES_RECORD), &record)?;
    draft.publish(&Disk, &folder)?;
    ImageSet::of_video(folder)
}

/// Record of everything that the frames depend on; keys are option names.
fn frames_record(options: &PhotoOptions, video: &Video) -> Value {
    let PhotoOptions { photos, lens, .. } = options;
    let source = video_frames(video).into_iter().next();
    json!({
        "video": photos.file_name().map(|name| name.to_string_lossy()),
        "video-bytes": source.as_ref().map(|s| s.bytes),
        "video-modified": source.as_ref().map(|s| s.modified),
        "select": lens.select.select.map(SelectBy::name),
        "step": lens.select.step,
        "fps": lens.fps,
        "start": lens.start(),
        "end": lens.end,
        "max-frames": lens.max_frames(),
    })
}

fn extract_frames(
    options: &PhotoOptions,
    video: &Video,
    folder: &Path,
    host: &mut Host<'_>,
) -> Result<(), Failure> {
    let most = options.lens.max_frames() as usize;
    let total = video.frames.min(most) as u64;
    let level = dispatch_level(SimdLevel::Auto).ok_or_else(|| Failure::new("device", "no SIMD level"))?;
    host.stage(Stage::TakeFrames(total));
    host.report(Event::Begun { item: CountedItem::Frames, done: 0, total });
    let taken = extract(video, folder, most, level, host.stop(), &mut |done| {
        host.report(Event::Done { done: done as u64, views_per_s: None });
    });
    host.report(Event::Ended);
    let taken = taken.map_err(|e| Failure::new("video", e))?;
    if host.is_stopping() {
        return Err(Failure::stopped());
    }
    if taken == 0 {
        let video = options.photos.display();
        return Err(Failure::new("video", format!("{video}: video: contains no frames")));
    }
    Ok(())
}

/// Refuses a folder of frames or copies that Gausset did not create: other images in it would be taken for its own.
pub(super) fn refuse_unowned(folder: &Path) -> Result<(), Failure> {
    if folder.symlink_metadata().is_err() {
        return Ok(());
    }
    let names = Disk.list(folder).unwrap_or_default();
    let found = names.first().map_or_else(|| "no marker".to_owned(), |name| name.display().to_string());
    let line = format!(
        "{}: folder: was not made by gausset (expected none, or one with images of this input, found {found}); move it, or choose another folder with -o",
        folder.display()
    );
    Err(Failure::new("exists", line))
}

#[cfg(test)]
mod tests {
    use gausset_io::image::encode::png_rgb8;
    use gausset_pano::metadata::GpsPosition;

    use super::*;
    use crate::georeference::position_of;

    /// EXIF of a picture that is stored mirrored, taken at 48° 30' N, 48° 30' E.
    fn mirrored_with_position() -> Vec<u8> {
        let angle = [48u32, 1, 30, 1, 0, 1].map(u32::to_be_bytes).concat();
        [
            &b"MM\0\x2A\0\0\0\x08\0\x02"[..],
            b"\x01\x12\0\x03\0\0\0\x01\0\x02\0\0\x88\x25\0\x04\0\0\0\x01\0\0\0\x26\0\0\0\0",
            b"\0\x04\0\x01\0\x02\0\0\0\x02N\0\0\0\0\x02\0\x05\0\0\0\x03\0\0\0\x5C",
            b"\0\x03\0\x02\0\0\0\x02E\0\0\0\0\x04\0\x05\0\0\0\x03\0\0\0\x5C\0\0\0\0",
            &angle,
        ]
        .concat()
    }

    /// Checksum of a PNG chunk.
    fn crc(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
    }

    #[test]
    fn a_copy_without_metadata_has_the_position_and_the_mask_of_its_original() {
        let place = tempfile::tempdir().unwrap();
        let photos = place.path().join("photos");
        std::fs::create_dir(&photos).unwrap();
        let plain = png_rgb8(&gausset_core::RgbImage8::new(8, 6)).unwrap();
        let exif = mirrored_with_position();
        let chunk = [b"eXIf", &exif[..]].concat();
        let (length, checksum) = ((exif.len() as u32).to_be_bytes(), crc(&chunk).to_be_bytes());
        // After the signature and IHDR.
        let mirrored = [&plain[..33], &length, &chunk, &checksum, &plain[33..]].concat();
        for (name, bytes) in [("a.png", &mirrored), ("b.png", &mirrored), ("c.png", &plain)] {
            std::fs::write(photos.join(name), bytes).unwrap();
        }
        // Beside the photographs, as Brush and COLMAP name them.
        let masks = ["a.png", "b.png.png"].map(|name| place.path().join("masks").join(name));
        std::fs::create_dir(place.path().join("masks")).unwrap();
        masks.iter().for_each(|mask| std::fs::write(mask, &plain).unwrap());
        let options = PhotoOptions::new(&photos, place.path().join("out"));
        let (stop, mut ignore) = (Default::default(), |_| {});
        let mut host = Host::new(&stop, &mut ignore);
        let expected = Some(GpsPosition { latitude: 48.5, longitude: 48.5, altitude: None });
        for _ in 0..2 {
            let found = source(&options, &host).unwrap();
            let pictures = prepare_images(&options, found, &mut host).unwrap();
            let names: Vec<&str> = pictures.frames.iter().map(|frame| frame.name.as_str()).collect();
            assert_eq!(names, ["a.png.png", "b.png.png", "c.png"]);
            let positions = names.iter().map(|name| position_of(&pictures.file_with_metadata(name)));
            assert_eq!(positions.collect::<Vec<_>>(), [expected, expected, None]);
            assert_eq!(pictures.masks().into_values().collect::<Vec<_>>(), masks);
        }
    }
}
