//! Formats that are not read, and what to do with them.

use std::io::Read;
use std::path::Path;

use gausset_io::input;

use crate::error::ContentError;

/// File name extensions that can be read.
const FORMATS: &str = ".csv, .npy, .npz, .nrrd, .nhdr, .nii, .nii.gz, .hdr, .mha, .mhd, .vti, .tif, .png, or a folder of \
                       slices";

const DICOM: &str = "convert its series, for example with `dcm2niix -z y -o OUT FOLDER`";
const ZARR: &str =
    "save one resolution level as .npy or .tif, for example with `zarr.open(PATH)[\"0\"]` in Python";

/// Endings of other formats: name and advice.
const OTHERS: [(&[&str], &str, &str); 7] = [
    (&[".dcm", ".dicom", ".ima"], "DICOM", DICOM),
    (&[".mgz", ".mgh"], "MGZ of FreeSurfer", "convert it with `mri_convert IN.mgz OUT.nii.gz`"),
    (&[".zarr", ".zattrs", ".zgroup", ".zarray", "zarr.json"], "OME-Zarr", ZARR),
    (
        &[".czi", ".lif", ".nd2", ".ims", ".oib", ".oif"],
        "a microscope's own format",
        "convert it with `bfconvert IN OUT.ome.tif` of Bio-Formats",
    ),
    (
        &[".h5", ".hdf5", ".mat", ".mnc"],
        "HDF5 or MATLAB",
        "save one array as .npy, for example with `h5py` in Python",
    ),
    (&[".vtk", ".vtu", ".vtp"], "VTK", "save it as .vti, for example with ParaView"),
    (
        &[".raw", ".img", ".img.gz", ".bin"],
        "voxels without a header",
        "name the header (.hdr, .nhdr, .mhd) beside it",
    ),
];

/// The name of the header beside `NAME.img`, if there is one.
pub(super) fn header_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let gz = if name.to_lowercase().ends_with(".gz") { name.len() - 3 } else { name.len() };
    let stem = name.get(..gz.checked_sub(4)?)?;
    if !name.get(stem.len()..gz)?.eq_ignore_ascii_case(".img") {
        return None;
    }
    let endings = [".hdr", ".HDR", ".hdr.gz"].map(|end| format!("{stem}{end}"));
    endings.into_iter().find(|header| path.with_file_name(header).is_file())
}

/// Whether a file is DICOM by its first bytes.
pub(super) fn is_dicom(path: &Path) -> bool {
    let mut start = Vec::new();
    let opened = input::open(path, input::NO_LIMIT).ok().map(|file| file.take(132).read_to_end(&mut start));
    opened.is_some_and(|read| read.is_ok()) && start.get(128..) == Some(b"DICM")
}

/// Why a file of this name is not read.
pub(super) fn no_format(path: &Path, name: &str) -> ContentError {
    let name = name.to_lowercase();
    let refused = |what: &str, advice| {
        ContentError::missing("format", format_args!("{what} is not read"), FORMATS).with_advice(advice)
    };
    if is_dicom(path) {
        return refused("DICOM", DICOM);
    }
    let other = OTHERS.iter().find(|(ends, ..)| ends.iter().any(|end| name.ends_with(end)));
    match other {
        Some((_, what, advice)) => refused(what, advice),
        None => ContentError::missing("name", "no known format", FORMATS),
    }
}

/// Why a folder without slices is not read; `None` if it has nothing that is known.
pub(super) fn no_slices(folder: &Path, files: &[String]) -> Option<ContentError> {
    let refused = |what: &str, advice| {
        ContentError::missing("folder", format_args!("{what} is not read"), FORMATS).with_advice(advice)
    };
    if [".zattrs", ".zgroup", ".zarray", "zarr.json"].iter().any(|name| folder.join(name).is_file()) {
        return Some(refused("OME-Zarr", ZARR));
    }
    let is_dicom = |name: &String| name.eq_ignore_ascii_case("DICOMDIR") || is_dicom(&folder.join(name));
    if files.iter().take(16).any(is_dicom) {
        return Some(refused("a DICOM series", DICOM));
    }
    None
}
