//! A folder of slices: one `.tif` or `.png` per slice, in the order of the numbers in their names. If all names are
//! numbers, some below 0, signs count.

use std::io;
use std::path::Path;

use gausset_io::image::catch_decoder_panic;
use gausset_io::input;
use gausset_io::text::{counted, natural_order};

use crate::error::ContentError;
use crate::input::checks::{ReadRequest, voxels};
use crate::input::error::InputError;
use crate::input::volume::Volume;
use crate::input::{Format, format, png, read_whole, tiff, unread};

/// Reads all slices of a folder.
pub(super) fn read(folder: &Path, wanted: &ReadRequest<'_>) -> Result<Volume, InputError> {
    let in_folder = |what: ContentError| content(folder, what);
    let files = files_of(folder).map_err(|source| InputError::Io { path: folder.to_owned(), source })?;
    let of = |kind| -> Vec<&String> { files.iter().filter(|name| format(name) == Some(kind)).collect() };
    let (tiffs, pngs) = (of(Format::Tiff), of(Format::Png));
    let mut slices = match (tiffs.is_empty(), pngs.is_empty()) {
        (false, true) => tiffs,
        (true, false) => pngs,
        (false, false) => {
            let found = format!("{} .tif and {} .png", tiffs.len(), pngs.len());
            let error = ContentError::unexpected("folder", "two kinds of slices", "one", found);
            return Err(in_folder(error.with_advice("move those that are not slices")));
        }
        (true, true) => {
            let none = || ContentError::missing("folder", "no slices", "files .tif or .png");
            return Err(in_folder(unread::no_slices(folder, &files).unwrap_or_else(none)));
        }
    };
    order_signed(&mut slices);
    wanted.frame_of(1).map_err(in_folder)?;
    let others = files.len() - slices.len();
    if others > 0 {
        wanted.note(format_args!("folder: {} ignored, no slices", counted(others as u64, "file")));
    }
    let mut dims = [0; 3];
    let mut values = Vec::new();
    for name in &slices {
        let path = folder.join(name);
        let slice = read_slice(&path, wanted)?;
        let in_slice = |what: ContentError| content(&path, what);
        if values.is_empty() {
            dims = [slice.dims[0], slice.dims[1], slices.len()];
            let count = voxels(&dims.map(|d| d as u64)).map_err(in_folder)?;
            wanted.check_count(count).map_err(in_folder)?;
        }
        let [width, height, pages] = slice.dims;
        if [width, height] != [dims[0], dims[1]] {
            let (expected, found) = (format!("{} x {}", dims[0], dims[1]), format!("{width} x {height}"));
            return Err(in_slice(ContentError::unexpected("slice", "another size", expected, found)));
        }
        if pages != 1 {
            let error =
                ContentError::unexpected("slice", "several pages", "one in a folder of slices", pages);
            return Err(in_slice(error.with_advice("name the file instead of the folder")));
        }
        values.extend(slice.values);
    }
    Ok(Volume::on_grid(dims, [1.0; 3], values))
}

fn content(path: &Path, what: ContentError) -> InputError {
    InputError::Content { path: path.to_owned(), what: Box::new(what.into()) }
}

fn read_slice(path: &Path, wanted: &ReadRequest<'_>) -> Result<Volume, InputError> {
    let bytes =
        read_whole(path, wanted).map_err(|source| InputError::Io { path: path.to_owned(), source })?;
    let is_png = format(&path.to_string_lossy()) == Some(Format::Png);
    let decoded = catch_decoder_panic(|| {
        if is_png { png::read(&bytes, wanted) } else { tiff::read_pages(&bytes, wanted) }
    });
    decoded.unwrap_or(Err(ContentError::Decoder)).map_err(|what| content(path, what))
}

/// The names of the files of a folder that are not hidden, in natural order.
fn files_of(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in input::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with('.') && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort_by(|a, b| natural_order(a, b));
    Ok(names)
}

/// Orders names that are all whole numbers with a sign where it is needed: -2, -1, +0, 1. Without a number from 0 on, a
/// hyphen may be the end of a prefix.
fn order_signed(names: &mut [&String]) {
    let number = |name: &str| Path::new(name).file_stem()?.to_str()?.parse::<i64>().ok();
    let is_signed = |name: &&String| name.starts_with('-');
    let are_numbers = names.iter().all(|name| number(name).is_some());
    if are_numbers && names.iter().any(is_signed) && !names.iter().all(is_signed) {
        names.sort_by_key(|name| number(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_in_the_order_of_their_numbers() {
        let mut names = ["s10.tif", "s9.tif", "s009b.tif", "s1.tif", "S2.tif", "s1_12.tif", "s1_3.tif"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["S2.tif", "s1.tif", "s1_3.tif", "s1_12.tif", "s9.tif", "s009b.tif", "s10.tif"]);
    }

    #[test]
    fn slices_that_are_named_by_numbers_below_0_come_first_and_in_their_order() {
        let ordered = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            names.sort_by(|a, b| natural_order(a, b));
            let mut names: Vec<&String> = names.iter().collect();
            order_signed(&mut names);
            names.into_iter().cloned().collect::<Vec<_>>()
        };
        let signed = ["+0.tiff", "-1.tiff", "+10.tiff", "-12.tiff", "+9.tiff"];
        assert_eq!(ordered(&signed), ["-12.tiff", "-1.tiff", "+0.tiff", "+9.tiff", "+10.tiff"]);
        assert_eq!(ordered(&["-10.5.tif", "-2.tif", "3.tif"]), ["-2.tif", "-10.5.tif", "3.tif"]);
        assert_eq!(ordered(&["-2.tif", "-10.tif"]), ["-2.tif", "-10.tif"]);
    }
}
