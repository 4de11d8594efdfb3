//! Streamed SOG: parts of space, levels of detail, and what is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gausset_core::Splats;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::splat::{self, Format, LoadOptions, SaveOptions, SaveReport, SplatFile};
use serde_json::{Value, json};

use crate::files::{self, some_splats};

/// A scene longer than a part may be, with a sky.
fn long_scene() -> SplatFile {
    let mut splats = some_splats(20_000, 1, 3);
    for (i, mean) in splats.means.iter_mut().enumerate() {
        mean[1] = (i % 997) as f32 * 0.04;
    }
    SplatFile { sky: 50, vertical_axis: Some([0.0, -1.0, 0.0]), ..SplatFile::new(splats) }
}

/// A change of an index.
type Change<'a> = &'a dyn Fn(&mut Value);

fn save(document: &SplatFile, path: &Path, overwrite: Overwrite) -> Result<SaveReport, String> {
    let options = SaveOptions { levels: Some(3), ..SaveOptions::default() };
    let write = WriteOptions { overwrite, ..WriteOptions::default() };
    splat::save(&Disk, path, document, &options, &write).map_err(|error| error.to_string())
}

fn load(path: &Path) -> Result<SplatFile, String> {
    splat::load(path, &LoadOptions::default()).map_err(|error| error.to_string())
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(contents(&entry.path())),
            false => drop(found.insert(entry.path(), std::fs::read(entry.path()).unwrap())),
        }
    }
    found
}

#[test]
fn the_finest_level_and_the_sky_are_read_again() {
    let folder = files::temporary_folder();
    let (document, path) = (long_scene(), folder.path().join("city/lod-meta.json"));
    let saved = save(&document, &path, Overwrite::Refuse).unwrap();
    assert_eq!((saved.format, saved.splats), (Format::StreamedSog, 20_000));
    let on_disk: usize = contents(folder.path()).values().map(Vec::len).sum();
    assert_eq!(saved.bytes, on_disk as u64);

    // Its folder names it, too.
    let back = load(&folder.path().join("city")).unwrap();
    assert_eq!((back.format, back.version.as_deref(), back.sky), (Format::StreamedSog, Some("1"), 50));
    assert_eq!(back.vertical_axis, document.vertical_axis);
    // The same splats in another order: each is where one was, within a step.
    let steps = saved.positions.unwrap();
    assert!(steps.scene < 0.01 && steps.sky.is_some() && steps.outliers.is_none(), "{steps:?}");
    let step = steps.scene as f32;
    let sorted = |splats: &Splats, range: std::ops::Range<usize>| {
        let mut means = splats.means[range].to_vec();
        means.sort_by(|a, b| (a[1], a[0]).partial_cmp(&(b[1], b[0])).unwrap());
        means
    };
    let (before, after) = (sorted(&document.splats, 0..19_950), sorted(&back.splats, 0..19_950));
    let off = before.iter().zip(&after).filter(|(a, b)| (a[1] - b[1]).abs() > step).count();
    assert_eq!(off, 0, "of {}", before.len());

    let again = files::temporary_folder();
    save(&document, &again.path().join("city/lod-meta.json"), Overwrite::Refuse).unwrap();
    let bytes = |folder: &Path| contents(folder).into_values().collect::<Vec<_>>();
    assert!(bytes(folder.path()) == bytes(again.path()), "not the same bytes");
}

#[test]
fn levels_halve_and_the_leaves_tile_their_files() {
    let folder = files::temporary_folder();
    let path = folder.path().join("lod-meta.json");
    save(&long_scene(), &path, Overwrite::Refuse).unwrap();
    let index: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mut leaves = Vec::new();
    let mut open = vec![&index["tree"]];
    while let Some(node) = open.pop() {
        match node["children"].as_array() {
            Some(children) => open.extend(children),
            None => leaves.push(node),
        }
    }
    // 40 units long, and no part is halved below 8,192 splats.
    assert_eq!(leaves.len(), 4);
    let counts: Vec<u64> = index["counts"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!((counts[0], index["lodLevels"].as_u64()), (19_950, Some(3)));
    assert!((9_975..9_980).contains(&counts[1]) && (4_987..4_995).contains(&counts[2]), "{counts:?}");
    assert_eq!(index["count"].as_u64(), Some(counts.iter().sum()));

    for (level, count) in counts.iter().enumerate() {
        let name = index["filenames"][level].as_str().unwrap();
        assert_eq!(name, format!("{level}_0/meta.json"));
        let file = load(&folder.path().join(name)).unwrap();
        assert_eq!(file.splats.len() as u64, *count);
        let rows = |leaf: &&Value| {
            let rows = &leaf["lods"][level.to_string()];
            assert_eq!(rows["file"].as_u64(), Some(level as u64));
            (rows["offset"].as_u64().unwrap() as usize, rows["count"].as_u64().unwrap() as usize)
        };
        let mut all: Vec<_> = leaves.iter().map(rows).collect();
        for (leaf, &(offset, count)) in leaves.iter().zip(&all) {
            let bound = |end: &str, axis: usize| leaf["bound"][end][axis].as_f64().unwrap() as f32;
            let is_inside = |mean: &[f32; 3]| {
                (0..3).all(|axis| bound("min", axis) <= mean[axis] && mean[axis] <= bound("max", axis))
            };
            let outside =
                file.splats.means[offset..offset + count].iter().filter(|mean| !is_inside(mean)).count();
            assert_eq!(outside, 0, "level {level} at {offset}");
        }
        all.sort_unstable();
        let end =
            all.iter().fold(0, |end, &(offset, count)| if offset == end { end + count } else { usize::MAX });
        assert_eq!(end as u64, *count, "{all:?}");
    }
}

#[test]
fn nothing_of_others_is_replaced_and_a_failed_write_leaves_nothing() {
    let folder = files::temporary_folder();
    let document = SplatFile::new(some_splats(300, 0, 1));
    let path = folder.path().join("new/lod-meta.json");
    let deep = save(&document, &folder.path().join("no/such/lod-meta.json"), Overwrite::Refuse).unwrap_err();
    assert!(deep.contains("no such") && !folder.path().join("no").exists(), "{deep}");
    let sky = SplatFile { sky: 300, ..document.clone() };
    let line = save(&sky, &path, Overwrite::Refuse).unwrap_err();
    assert!(line.contains("no splats to write but a sky"), "{line}");
    let line = save(&document, &folder.path().join("city.json"), Overwrite::Refuse).unwrap_err();
    assert!(line.contains("city.json") && line.contains("name"), "{line}");
    // Another program's file in the way of the second level.
    std::fs::create_dir_all(folder.path().join("1_0")).unwrap();
    std::fs::write(folder.path().join("1_0/sh0.webp"), "mine").unwrap();
    let line = save(&document, &folder.path().join("lod-meta.json"), Overwrite::Refuse).unwrap_err();
    assert!(line.contains("1_0/sh0.webp"), "{line}");
    let left = contents(folder.path());
    assert_eq!(left.into_values().collect::<Vec<_>>(), [b"mine"]);
    assert!(!folder.path().join("0_0").exists());

    save(&document, &path, Overwrite::Refuse).unwrap();
    let line = save(&document, &path, Overwrite::Refuse).unwrap_err();
    assert!(line.contains("new/lod-meta.json"), "{line}");
    let before = contents(folder.path());
    save(&document, &path, Overwrite::Replace).unwrap();
    assert!(before == contents(folder.path()));

    // Parts of the old scene alone go: its second and third level, and the palettes of its SH.
    std::fs::write(folder.path().join("new/mine.txt"), "mine").unwrap();
    let flat = SplatFile::new(some_splats(300, 1, 1));
    save(&flat, &path, Overwrite::Replace).unwrap();
    let names = |folder: &Path| contents(folder).into_keys().collect::<Vec<_>>();
    assert!(names(folder.path()).iter().any(|name| name.ends_with("new/0_0/shN_labels.webp")));
    let options = SaveOptions { levels: Some(1), ..SaveOptions::default() };
    splat::save(&Disk, &path, &document, &options, &WriteOptions::default()).unwrap();
    let left = names(&folder.path().join("new"));
    let other = left.iter().find(|name| name.to_string_lossy().contains("shN"));
    assert!(other.is_none() && left.len() == 8 && !folder.path().join("new/1_0").exists(), "{left:?}");
    // Whatever an old index names: nothing but our own parts is removed, and a link keeps its target's place.
    std::fs::write(folder.path().join("new/photo.webp"), "mine").unwrap();
    let elsewhere = folder.path().join("elsewhere.json");
    let names_others = json!({ "lodLevels": 1, "tree": {}, "filenames": ["mine.txt", "meta.json", "../1_0/meta.json", "lod-meta.json"] });
    std::fs::write(&elsewhere, names_others.to_string()).unwrap();
    std::fs::remove_file(&path).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(!splat::files_of(&path).is_empty());
    save(&document, &path, Overwrite::Replace).unwrap();
    for kept in ["new/mine.txt", "new/photo.webp", "1_0/sh0.webp"] {
        assert_eq!(std::fs::read(folder.path().join(kept)).unwrap(), b"mine", "{kept}");
    }
    assert_eq!(load(&path).unwrap().splats.len(), 300);
}

#[test]
fn damaged_indices_are_refused_in_one_line() {
    let folder = files::temporary_folder();
    let path = folder.path().join("lod-meta.json");
    save(&SplatFile::new(some_splats(300, 2, 1)), &path, Overwrite::Refuse).unwrap();
    let whole: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let line = |change: &dyn Fn(&mut Value)| {
        let mut index = whole.clone();
        change(&mut index);
        std::fs::write(&path, index.to_string()).unwrap();
        load(&path).unwrap_err().replace(&folder.path().display().to_string(), "F")
    };
    let rows = |index: &mut Value, key: &str, value: Value| index["tree"]["lods"]["0"][key] = value;
    let cases: [(&str, Change<'_>); 9] = [
        ("rows that it lacks (expected rows below 300, found 300 from row 7)", &|i| {
            rows(i, "offset", json!(7))
        }),
        ("(expected rows below 300, found 300 from row 18446744073709551615)", &|i| {
            rows(i, "offset", json!(u64::MAX));
        }),
        ("a file that has no name (expected below 3, found 9)", &|i| rows(i, "file", json!(9))),
        ("unknown version of streamed SOG (expected 1, found 2)", &|i| i["version"] = json!(2)),
        ("not the index of a streamed SOG", &|i| i["tree"] = json!(5)),
        ("a name that leads out", &|i| i["filenames"][0] = json!("../0_0/meta.json")),
        ("F/0_1/meta.json: open: no such file", &|i| i["filenames"][0] = json!("0_1/meta.json")),
        ("rows that two parts have", &|i| {
            let mut leaf = i["tree"].take();
            leaf["lods"]["0"]["count"] = json!(200);
            let mut other = leaf.clone();
            other["lods"]["0"]["offset"] = json!(100);
            i["tree"] = json!({ "children": [leaf, other] });
        }),
        ("recursion limit", &|i| {
            for _ in 0..200 {
                i["tree"] = json!({ "children": [i["tree"].take()] });
            }
        }),
    ];
    for (expected, change) in cases {
        let found = line(change);
        assert!(found.contains(expected) && !found.contains('\n'), "{expected}: {found}");
    }
    let twice = line(&|index| {
        index["filenames"][1] = index["filenames"][0].clone();
        let leaf = index["tree"].clone();
        let mut other = leaf.clone();
        other["lods"]["0"]["file"] = json!(1);
        index["tree"] = json!({ "children": [leaf, other] });
    });
    assert!(twice.contains("a file is named twice"), "{twice}");
    // Fewer splats than it says are a note.
    let mut index = whole.clone();
    index["tree"]["lods"]["0"]["count"] = json!(250);
    std::fs::write(&path, index.to_string()).unwrap();
    let notes = load(&path).unwrap().report.notes;
    assert!(notes.iter().any(|note| note.contains("expected 300 splats, found ")), "{notes:?}");
    std::fs::write(&path, whole.to_string()).unwrap();
    let limits = splat::ReadLimits { memory_bytes: 300 << 10 };
    let line = splat::load(&path, &LoadOptions { limits, ..LoadOptions::default() }).unwrap_err().to_string();
    assert!(line.contains("exceeds the memory limit"), "{line}");
    // Neither an empty one nor junk is anything else.
    for junk in ["{}", "[]", "null", "\u{feff}{}", "junk"] {
        std::fs::write(&path, junk).unwrap();
        assert_eq!(splat::recognise(folder.path()), Some(Format::StreamedSog), "{junk}");
        assert!(load(&path).unwrap_err().contains("not the index of a streamed SOG"), "{junk}");
    }
}
