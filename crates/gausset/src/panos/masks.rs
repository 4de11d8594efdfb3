//! Combines masks from any source: union, difference, intersection, inversion, and conversion between views and
//! panoramas.
//!
//! A mask belongs to a frame by its name: `NAME.png`, `NAME.jpg.png` and `NAME_mask.png` belong to NAME. A single file
//! given together with folders applies to all frames.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{
    Disk, FileSystem, Overwrite, WriteOptions, check_not_in_inputs, check_output, write_atomic_with,
};
use gausset_io::image::decode::{decode_file, decode_mask_file};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::input_files::InputFiles;
use gausset_io::{input, ownership};
use gausset_pano::geometry::View;
use gausset_pano::sphere_mask::{REMOVED, SphereMask};
use gausset_pano::split::Skipped;
use serde::Serialize;

use crate::footage_options::ViewOptions;
use crate::{Failure, Host};

/// Purpose in the ownership marker of a mask folder.
const PURPOSE: &str = "masks";
/// Maximum number of masks in a folder.
const MAX_MASKS: usize = 1 << 20;

/// How the second and later masks are combined with the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// Remove the pixels that any mask removes.
    #[default]
    Unite,
    /// Remove the pixels that the first mask removes and no other does.
    Subtract,
    /// Remove the pixels that all masks remove.
    Intersect,
}

/// Conversion of masks between views and panoramas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskConversion {
    /// Masks keep the projection of the input.
    #[default]
    Stay,
    /// Converts masks of views to panoramas of this width.
    ToPanorama(u32),
    /// Converts masks of panoramas to views.
    ToViews,
}

/// Options of [`masks()`].
#[derive(Clone, Debug)]
pub struct MasksOptions {
    /// Masks or folders of masks; with [`MaskConversion::ToPanorama`], folders with a subfolder for each view.
    pub inputs: Vec<PathBuf>,
    /// Output folder, or for a single mask a `.png` file.
    pub output: PathBuf,
    /// How masks are combined.
    pub combine: Combine,
    /// Whether to swap removed and kept pixels.
    pub invert: bool,
    /// Conversion between views and panoramas.
    pub carry: MaskConversion,
    /// Layout of the views.
    pub views: ViewOptions,
    /// Dilation of the removed region on the sphere, in degrees.
    pub dilate: f64,
    /// Width of the soft edge in degrees.
    pub feather: f64,
    /// Replace files that Gausset did not create.
    pub force: bool,
}

/// Result of [`masks()`] or a dry run; the JSON form is a stable contract.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MasksResult {
    schema: u32,
    kind: &'static str,
    /// Number of frames with a mask.
    pub masks: usize,
    /// Number of files.
    pub files: usize,
    /// Removed fraction of the sphere (of masks in other shapes: of the image), mean over the frames.
    pub removed_mean: f64,
    /// Largest removed fraction.
    pub removed_worst: f64,
    /// Frames that were left out, each with the reason.
    pub skipped: Vec<Skipped>,
    /// Whether this is a dry run, which writes nothing.
    pub is_dry_run: bool,
    /// Whether the job was asked to stop.
    #[serde(skip)]
    pub is_cancelled: bool,
}

/// The files of one input by frame name.
enum MaskInput {
    /// One mask for all frames.
    All(PathBuf),
    /// One mask per frame.
    Each(BTreeMap<String, PathBuf>),
    /// Masks of views: per frame, index of the view and file.
    Views(BTreeMap<String, Vec<(usize, PathBuf)>>),
}

/// Combines and converts masks; with `is_dry_run` only counts them.
///
/// # Errors
/// Unusable masks or options, files that Gausset did not create, or a file that cannot be written.
pub fn masks(options: &MasksOptions, is_dry_run: bool, host: &mut Host<'_>) -> Result<MasksResult, Failure> {
    check(options)?;
    let views = match options.carry {
        MaskConversion::ToPanorama(width) => options.views.views(width)?,
        _ => Vec::new(),
    };
    let inputs: Vec<MaskInput> =
        options.inputs.iter().map(|path| MaskInput::open(path, &views)).collect::<Result<_, _>>()?;
    let names = names(&inputs, options)?;
    let as_file =
        options.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) && !options.output.is_dir();
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    if as_file && (names.len() != 1 || options.carry == MaskConversion::ToViews) {
        return Err(Failure::usage(format!(
            "{}: is a single mask file (expected a folder for {} frames)",
            options.output.display(),
            names.len()
        )));
    }
    let of_views = |input: &PathBuf| views.iter().map(|view| input.join(&view.name)).collect::<Vec<_>>();
    let _reading =
        InputFiles::new(options.inputs.iter().cloned().chain(options.inputs.iter().flat_map(of_views)));
    if as_file {
        check_output(&Disk, &options.output, overwrite)?;
    } else {
        check_not_in_inputs(&options.output, options.inputs.iter().map(PathBuf::as_path))?;
    }
    let mut made = MasksResult {
        schema: 1,
        kind: "masks",
        masks: 0,
        files: 0,
        removed_mean: 0.0,
        removed_worst: 0.0,
        skipped: Vec::new(),
        is_dry_run,
        is_cancelled: false,
    };
    for name in &names {
        if host.is_stopping() {
            made.is_cancelled = true;
            break;
        }
        let files = match mask_of(name, &inputs, &views, options) {
            Ok(mask) => {
                let removed = removed_fraction(&mask);
                made.removed_mean += removed;
                made.removed_worst = made.removed_worst.max(removed);
                files_of(name, &mask, options)?
            }
            Err(failure) if names.len() == 1 => return Err(failure),
            Err(failure) => {
                host.warn("frames", format!("{failure}; skipped"));
                made.skipped.push(Skipped { frame: name.clone(), reason: failure.to_string() });
                continue;
            }
        };
        made.masks += 1;
        made.files += files.len();
        if is_dry_run {
            continue;
        }
        let how = WriteOptions { overwrite: Overwrite::Replace, ..WriteOptions::default() };
        if as_file {
            for (_, bytes) in &files {
                let how = WriteOptions { overwrite, ..WriteOptions::default() };
                write_atomic_with(&Disk, &options.output, &how, |file| file.write_all(bytes))?;
            }
            continue;
        }
        ownership::claim_for_files(
            &Disk,
            &options.output,
            PURPOSE,
            files.iter().map(|(path, _)| path),
            overwrite,
        )?;
        for (path, bytes) in &files {
            let path = options.output.join(path);
            if let Some(folder) = path.parent() {
                let failed = |e: std::io::Error| {
                    let reason = gausset_io::atomic::plain_reason(&e);
                    Failure::new("write", format!("{}: {reason}", folder.display()))
                };
                Disk.create_folder(folder).map_err(failed)?;
            }
            write_atomic_with(&Disk, &path, &how, |file| file.write_all(bytes))?;
        }
    }
    made.removed_mean /= made.masks.max(1) as f64;
    if let (0, Some(first)) = (made.masks, made.skipped.first()) {
        return Err(Failure::new(
            "frames",
            format!("masks: none could be used (the first: {})", first.reason),
        ));
    }
    Ok(made)
}

fn check(options: &MasksOptions) -> Result<(), Failure> {
    for (key, degrees) in [("dilate", options.dilate), ("feather", options.feather)] {
        if !(0.0..=30.0).contains(&degrees) {
            return Err(Failure::usage(format!("⟨{key}⟩: expected 0 to 30 degrees, found {degrees}")));
        }
    }
    if options.carry == MaskConversion::Stay && options.views != ViewOptions::default() {
        return Err(Failure::usage(
            "⟨layout⟩, ⟨views⟩, ⟨size⟩ and other view options: have no effect without ⟨to-panorama⟩ or ⟨to-views⟩; leave them out, or add one",
        ));
    }
    if let MaskConversion::ToPanorama(width) = options.carry
        && (!width.is_multiple_of(2) || !(32..=32_768).contains(&width))
    {
        return Err(Failure::usage(format!(
            "⟨to-panorama⟩: expected an even number of px from 32 to 32768, found {width}"
        )));
    }
    Ok(())
}

impl MaskInput {
    fn open(path: &Path, views: &[View]) -> Result<Self, Failure> {
        let shown = path.display();
        if views.is_empty() {
            if path.is_file() {
                return Ok(Self::All(path.to_owned()));
            }
            let each = list_masks(path)?;
            if each.is_empty() {
                return Err(Failure::new(
                    "frames",
                    format!("{shown}: masks: none found (expected PNG files)"),
                ));
            }
            return Ok(Self::Each(each));
        }
        let mut all: BTreeMap<String, Vec<(usize, PathBuf)>> = BTreeMap::new();
        for (index, view) in views.iter().enumerate() {
            let folder = path.join(&view.name);
            // A view without removed pixels may have no mask folder.
            if folder.is_dir() {
                for (name, file) in list_masks(&folder)? {
                    all.entry(name).or_default().push((index, file));
                }
            }
        }
        if all.is_empty() {
            let what = format!("{shown}: masks: none found (expected {shown}/{}/NAME.png)", views[0].name);
            return Err(Failure::new("frames", what));
        }
        Ok(Self::Views(all))
    }
}

/// The PNG files of a folder by frame name.
fn list_masks(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let failed = |e: std::io::Error| {
        let reason = gausset_io::atomic::plain_reason(&e);
        Failure::new(
            "frames",
            format!("{}: masks: {reason} (expected a mask, or a folder of them)", folder.display()),
        )
    };
    let mut masks: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut paths = Vec::new();
    for entry in input::read_dir(folder).map_err(failed)?.take(MAX_MASKS) {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    for path in paths {
        let is_mask = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("png"));
        if let (true, Some(name)) = (is_mask && path.is_file(), frame_name(&path))
            && let Some(other) = masks.insert(name.clone(), path.clone())
        {
            return Err(Failure::new(
                "frames",
                format!(
                    "{}: mask: belongs to {name}, as does {}; remove one of them",
                    path.display(),
                    other.display()
                ),
            ));
        }
    }
    Ok(masks)
}

/// The frame name of a mask file.
fn frame_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    let stem = stem.strip_suffix("_mask").unwrap_or(&stem);
    let picture = stem.rsplit_once('.').filter(|(_, ending)| {
        ["jpg", "jpeg", "png", "tif", "tiff", "insp"].iter().any(|known| ending.eq_ignore_ascii_case(known))
    });
    Some(picture.map_or(stem, |(name, _)| name).to_owned())
}

/// Names of the frames that get a mask: those of any input; for difference and intersection, those of the first input.
fn names(inputs: &[MaskInput], options: &MasksOptions) -> Result<Vec<String>, Failure> {
    let of = |input: &MaskInput| -> Vec<String> {
        match input {
            MaskInput::All(_) => Vec::new(),
            MaskInput::Each(each) => each.keys().cloned().collect(),
            MaskInput::Views(all) => all.keys().cloned().collect(),
        }
    };
    let used = if options.combine == Combine::Unite { inputs } else { &inputs[..1.min(inputs.len())] };
    let names: BTreeSet<String> = used.iter().flat_map(of).collect();
    if !names.is_empty() {
        return Ok(names.into_iter().collect());
    }
    // Single files only: use the name of the first.
    let first = options.inputs.first().and_then(|path| frame_name(path));
    first.map(|name| vec![name]).ok_or_else(|| Failure::usage("expected a mask, or a folder of them"))
}

/// The combined and converted mask of a frame.
fn mask_of(
    name: &str,
    inputs: &[MaskInput],
    views: &[View],
    options: &MasksOptions,
) -> Result<SphereMask, Failure> {
    let mut mask: Option<(SphereMask, PathBuf)> = None;
    for input in inputs {
        let (next, path) = match input {
            MaskInput::All(path) => (read(path)?, path.clone()),
            MaskInput::Each(each) => match each.get(name) {
                Some(path) => (read(path)?, path.clone()),
                None => continue,
            },
            MaskInput::Views(all) => match (all.get(name), options.carry) {
                (Some(files), MaskConversion::ToPanorama(width)) => {
                    let mut panorama = SphereMask::new(width as usize, width as usize / 2);
                    for (index, path) in files {
                        let SphereMask { width, height, data } = read(path)?;
                        panorama.project_from_view(&views[*index], &data, width, height);
                    }
                    (panorama, files.first().map(|(_, path)| path.clone()).unwrap_or_default())
                }
                _ => continue,
            },
        };
        let Some((mask, first)) = &mut mask else {
            mask = Some((next, path));
            continue;
        };
        if (mask.width, mask.height) != (next.width, next.height) {
            return Err(Failure::new(
                "frames",
                format!(
                    "{}: mask: {}x{} px (expected {}x{}, the size of {})",
                    path.display(),
                    next.width,
                    next.height,
                    mask.width,
                    mask.height,
                    first.display()
                ),
            ));
        }
        match options.combine {
            Combine::Unite => mask.union_with(&next),
            Combine::Subtract => mask.subtract(&next),
            Combine::Intersect => mask.intersect(&next),
        }
    }
    let Some((mut mask, first)) = mask else {
        return Err(Failure::new("frames", format!("{name}: mask: not found")));
    };
    if options.invert {
        mask.invert();
    }
    let is_on_sphere =
        options.dilate > 0.0 || options.feather > 0.0 || options.carry == MaskConversion::ToViews;
    if is_on_sphere && mask.width != 2 * mask.height {
        return Err(Failure::new(
            "frames",
            format!(
                "{}: mask: {}x{} px (expected that of a panorama, twice as wide as high)",
                first.display(),
                mask.width,
                mask.height
            ),
        ));
    }
    if options.dilate > 0.0 {
        mask.dilate(options.dilate);
    }
    if options.feather > 0.0 {
        mask.feather(options.feather);
    }
    Ok(mask)
}

/// Reads a mask with soft values. If all values are tiny (such as 0 and 1), every value but 0 means keep; the alpha of one
/// colour is a mask.
fn read(path: &Path) -> Result<SphereMask, Failure> {
    let failed = |e| Failure::new("frames", e);
    let picture = decode_file(path).map_err(failed)?;
    let mut keep: Vec<u8> = picture.rgb.chunks_exact(3).map(|rgb| rgb[0].max(rgb[1]).max(rgb[2])).collect();
    let has_one_colour = picture.rgb.chunks_exact(3).all(|rgb| *rgb == picture.rgb[..3]);
    if keep.iter().all(|keep| *keep < REMOVED) || picture.alpha.is_some() && has_one_colour {
        keep = decode_mask_file(path).map_err(failed)?.values;
    }
    Ok(SphereMask::from_data(picture.width as usize, picture.height as usize, keep))
}

/// Removed fraction of a mask: of the sphere if it is 2:1, otherwise of the image.
fn removed_fraction(mask: &SphereMask) -> f64 {
    if mask.width == 2 * mask.height {
        return mask.removed_fraction();
    }
    let removed = mask.data.iter().filter(|keep| **keep < REMOVED).count();
    removed as f64 / mask.data.len() as f64
}

/// Output files of a mask. Values are 0 and 255 only, because other programs keep every value but 0; except with
/// `feather`.
fn files_of(
    name: &str,
    mask: &SphereMask,
    options: &MasksOptions,
) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let encoded = |width: usize, height: usize, data: &[u8]| {
        let is_soft = options.feather > 0.0;
        let values: Vec<u8> =
            data.iter().map(|keep| if is_soft { *keep } else { 255 * u8::from(*keep >= REMOVED) }).collect();
        png(width as u32, height as u32, PngPixels::Grey8(&values), &[]).map_err(|e| Failure::new("write", e))
    };
    if options.carry != MaskConversion::ToViews {
        let bytes = encoded(mask.width, mask.height, &mask.data)?;
        return Ok(vec![(PathBuf::from(format!("{name}.png")), bytes)]);
    }
    let mut files = Vec::new();
    for view in options.views.views(mask.width as u32)? {
        let (width, height) = (view.width as usize, view.height as usize);
        let cut = mask.sample_view(&view, width, height);
        // Same names as `pano split`: the views are JPEG.
        let path = Path::new(&view.name).join(format!("{name}.jpg.png"));
        files.push((path, encoded(width, height, &cut)?));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use gausset_pano::layout::Layout;

    use super::*;

    fn write(path: &Path, mask: &SphereMask) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes = png(mask.width as u32, mask.height as u32, PngPixels::Grey8(&mask.data), &[]).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn run(options: &MasksOptions) -> Result<MasksResult, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut ignore = |_: crate::Event| {};
        masks(options, false, &mut Host::new(&stop, &mut ignore))
    }

    fn options(folder: &Path, inputs: &[&str]) -> MasksOptions {
        MasksOptions {
            inputs: inputs.iter().map(|name| folder.join(name)).collect(),
            output: folder.join("out"),
            combine: Combine::Unite,
            invert: false,
            carry: MaskConversion::Stay,
            views: ViewOptions::default(),
            dilate: 0.0,
            feather: 0.0,
            force: false,
        }
    }

    /// A mask that removes a rectangle of columns and rows.
    fn mask(columns: std::ops::Range<usize>, rows: std::ops::Range<usize>) -> SphereMask {
        let mut mask = SphereMask::new(256, 128);
        for y in rows {
            mask.data[y * 256 + columns.start..y * 256 + columns.end].fill(0);
        }
        mask
    }

    #[test]
    fn masks_of_many_names_are_combined_by_frame() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (a, b, nadir) = (mask(10..60, 40..80), mask(50..90, 40..80), mask(0..256, 110..128));
        write(&at("a/p0.jpg.png"), &a);
        write(&at("b/p0_mask.png"), &b);
        write(&at("b/p1.png"), &b);
        write(&at("nadir.png"), &nadir);
        let made = run(&options(folder.path(), &["a", "b", "nadir.png"])).unwrap();
        assert_eq!((made.masks, made.files, made.skipped.len()), (2, 2, 0));
        let mut wanted = a.clone();
        wanted.union_with(&b);
        wanted.union_with(&nadir);
        assert_eq!(read(&at("out/p0.png")).unwrap(), wanted);
        let subtracted = MasksOptions {
            combine: Combine::Subtract,
            invert: true,
            output: at("one.png"),
            ..options(folder.path(), &["a", "b"])
        };
        run(&subtracted).unwrap();
        let mut wanted = a;
        wanted.subtract(&b);
        wanted.invert();
        assert_eq!(read(&at("one.png")).unwrap(), wanted);
        // Existing files are only replaced with `force`.
        assert_eq!(run(&subtracted).err().map(|e| e.code), Some("write"));
        run(&MasksOptions { force: true, ..subtracted }).unwrap();
    }

    #[test]
    fn views_of_a_panorama_carried_back_are_its_mask() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let original = mask(100..256, 30..128);
        write(&at("m/p0.png"), &original);
        let to_views = MasksOptions {
            carry: MaskConversion::ToViews,
            output: at("views"),
            views: ViewOptions { layout: Layout::Cube6, size: Some(128), ..ViewOptions::default() },
            ..options(folder.path(), &["m"])
        };
        let made = run(&to_views).unwrap();
        assert_eq!((made.masks, made.files), (1, 6));
        let back = MasksOptions {
            inputs: vec![at("views")],
            carry: MaskConversion::ToPanorama(256),
            output: at("back"),
            ..to_views
        };
        run(&back).unwrap();
        let back = read(&at("back/p0.png")).unwrap();
        let share = |of: fn(u8, u8) -> bool| -> f64 {
            let pairs = back.data.iter().zip(&original.data).enumerate();
            pairs.filter(|(_, (a, b))| of(**a, **b)).map(|(at, _)| back.pixel_fraction(at / 256)).sum()
        };
        // Two conversions through binary masks: half a pixel along an edge of 1.2 turns of 256 px is 0.6 % of the
        // sphere.
        let (lost, added) = (share(|a, b| a > b), share(|a, b| a < b));
        assert!(lost < 0.003 && added < 0.003, "{lost} {added}");
    }

    #[test]
    fn masks_of_0_and_1_keep_where_they_are_1_and_soft_ones_are_halved() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let written = |values: [u8; 4]| -> Vec<u8> {
            let data = values.repeat(2);
            write(&at("in.png"), &SphereMask::from_data(4, 2, data));
            run(&MasksOptions { output: at("out.png"), force: true, ..options(folder.path(), &["in.png"]) })
                .unwrap();
            read(&at("out.png")).unwrap().data[..4].to_vec()
        };
        assert_eq!(written([0, 1, 1, 0]), [0, 255, 255, 0]);
        assert_eq!(written([0, 100, 200, 255]), [0, 0, 255, 255]);
        assert_eq!(written([0; 4]), [0; 4]);
        // The alpha of a light colour.
        let pixels = [[200, 210, 220, 0], [200, 210, 220, 255]].repeat(4);
        let bytes = png(4, 2, PngPixels::Rgba8(pixels.as_flattened()), &[]).unwrap();
        std::fs::write(at("in.png"), bytes).unwrap();
        assert_eq!(read(&at("in.png")).unwrap().data[..4], [0, 255, 0, 255]);
    }

    #[test]
    fn masks_that_do_not_fit_are_told_with_both_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write(&at("a/p0.png"), &SphereMask::new(64, 32));
        write(&at("b/p0.png"), &SphereMask::new(60, 32));
        let error = run(&options(folder.path(), &["a", "b"])).unwrap_err();
        assert!(error.message.contains("60x32 px (expected 64x32"), "{error}");
        let odd = MasksOptions { dilate: 1.0, ..options(folder.path(), &["b"]) };
        assert!(run(&odd).unwrap_err().message.contains("twice as wide as high"));
        assert!(run(&options(folder.path(), &["nowhere"])).unwrap_err().message.contains("nowhere: masks: "));
    }
}
