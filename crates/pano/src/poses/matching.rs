//! Pairs the poses of two trajectories that belong to the same image.

use std::collections::BTreeMap;

use super::{NamedPose, Trajectory};

/// Key by which images were paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MatchKey {
    /// Name including folders.
    Name,
    /// Name including folders, without extension.
    NameWithoutExtension,
    /// Name without folders and extension.
    Stem,
    /// List index, which one trajectory has instead of names; of a frame of several images, the first counts.
    Place,
}

/// Paired poses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosePairs {
    /// Indices into the first and the second trajectory, in the order of the second.
    pub pairs: Vec<(usize, usize)>,
    /// Key of the pairs.
    pub key: MatchKey,
}

/// Why trajectories could not be paired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// A name occurs more than once.
    #[error("{name:?} occurs {count} times in {which} (expected once)")]
    DuplicateName {
        /// Description of the trajectory, for the message.
        which: &'static str,
        /// The name.
        name: String,
        /// Number of occurrences.
        count: usize,
    },
    /// No time stamp is an index into the other list.
    #[error("no time stamp is an index into the list of {called} (expected 0 to {}, found {stamp})", count.saturating_sub(1))]
    NoIndex {
        /// Description of the trajectory with names.
        called: &'static str,
        /// The first time stamp.
        stamp: String,
        /// Number of frames with names.
        count: usize,
    },
    /// The trajectories have no name in common.
    #[error("no name in common ({first:?} and others in {}, {second:?} and others in {})", descriptions[0], descriptions[1])]
    NoCommonName {
        /// Descriptions of both trajectories.
        descriptions: [&'static str; 2],
        /// A name of the first trajectory.
        first: String,
        /// A name of the second trajectory.
        second: String,
    },
}

/// Normalises a name: `/` between folders, without a leading `./` or `images/`.
fn normalised(name: &str) -> String {
    let name = name.replace('\\', "/");
    let name = name.trim_start_matches("./");
    name.strip_prefix("images/").unwrap_or(name).to_owned()
}

/// The normalised name without an image extension.
fn without_extension(name: &str) -> String {
    let name = normalised(name);
    match name.rsplit_once('.') {
        Some((stem, extension)) if is_image_extension(extension) && !stem.is_empty() => stem.to_owned(),
        _ => name,
    }
}

/// The normalised name without folders and image extension.
fn stem(name: &str) -> String {
    let name = without_extension(name);
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_image_extension(extension: &str) -> bool {
    ["jpg", "jpeg", "png", "tif", "tiff", "webp", "exr", "dng"]
        .iter()
        .any(|e| extension.eq_ignore_ascii_case(e))
}

fn index(
    list: &Trajectory,
    which: &'static str,
    by: MatchKey,
    key: impl Fn(&NamedPose) -> String,
) -> Result<BTreeMap<String, usize>, PairError> {
    let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (at, pose) in list.poses.iter().enumerate() {
        places.entry(key(pose)).and_modify(|(_, count)| *count += 1).or_insert((at, 1));
    }
    let may_repeat = by == MatchKey::Place && !list.is_numbered;
    match places.iter().find(|(_, (_, count))| *count > 1 && !may_repeat) {
        Some((name, (_, count))) => {
            Err(PairError::DuplicateName { which, name: name.clone(), count: *count })
        }
        None => Ok(places.into_iter().map(|(name, (at, _))| (name, at)).collect()),
    }
}

/// Pairs poses by name, or, if no names match, by name without extension, then by stem or list index. `called`
/// describes the trajectories in error messages.
///
/// # Errors
/// A name occurs twice, or none is common.
pub fn pair_poses(
    first: &Trajectory,
    second: &Trajectory,
    called: [&'static str; 2],
) -> Result<PosePairs, PairError> {
    let by = |by: MatchKey, key: &dyn Fn(&NamedPose) -> String| -> Result<PosePairs, PairError> {
        let known = index(first, called[0], by, key)?;
        let mut pairs: Vec<(usize, usize)> = index(second, called[1], by, key)?
            .into_iter()
            .filter_map(|(name, at)| Some((*known.get(&name)?, at)))
            .collect();
        pairs.sort_unstable_by_key(|&(_, at)| at);
        Ok(PosePairs { pairs, key: by })
    };
    let found = by(MatchKey::Name, &|p| normalised(&p.name))?;
    if !found.pairs.is_empty() {
        return Ok(found);
    }
    let found = by(MatchKey::NameWithoutExtension, &|p| without_extension(&p.name))?;
    if !found.pairs.is_empty() {
        return Ok(found);
    }
    let found = if first.is_numbered != second.is_numbered {
        by(MatchKey::Place, &|p| p.frame.to_string())?
    } else {
        by(MatchKey::Stem, &|p| stem(&p.name))?
    };
    if found.pairs.is_empty() && found.key == MatchKey::Place {
        let [numbers, names] = if first.is_numbered { [first, second] } else { [second, first] };
        let called = if first.is_numbered { called[1] } else { called[0] };
        let stamp = numbers.poses.first().map(|p| p.name.clone()).unwrap_or_default();
        let count = names.poses.iter().map(|p| p.frame as usize + 1).max().unwrap_or(0);
        return Err(PairError::NoIndex { called, stamp, count });
    }
    if found.pairs.is_empty() {
        let name = |list: &Trajectory| list.poses.first().map(|p| p.name.clone()).unwrap_or_default();
        return Err(PairError::NoCommonName {
            descriptions: called,
            first: name(first),
            second: name(second),
        });
    }
    Ok(found)
}

/// Names of `list` that are missing in `others`, compared by the key of the pairs.
#[must_use]
pub fn missing_names(list: &Trajectory, others: &Trajectory, by: MatchKey) -> Vec<String> {
    let key = |name: &str, moment: u32| match by {
        MatchKey::Name => normalised(name),
        MatchKey::NameWithoutExtension => without_extension(name),
        MatchKey::Stem => stem(name),
        MatchKey::Place => moment.to_string(),
    };
    let known: std::collections::BTreeSet<String> =
        others.poses.iter().map(|p| key(&p.name, p.frame)).collect();
    let is_missing = |p: &&NamedPose| !known.contains(&key(&p.name, p.frame));
    list.poses.iter().filter(is_missing).map(|p| p.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use gausset_core::Pose;

    use super::*;

    fn pairs(first: &Trajectory, second: &Trajectory) -> Result<PosePairs, PairError> {
        pair_poses(first, second, ["the first", "the second"])
    }

    fn list(names: &[&str]) -> Trajectory {
        let pose = |(moment, name): (u32, &&str)| NamedPose {
            name: (*name).into(),
            pose: Pose::IDENTITY,
            frame: moment,
        };
        Trajectory::new("test", (0..).zip(names).map(pose).collect())
    }

    #[test]
    fn names_come_before_stems() {
        let a = list(&["images/view00/a.jpg", "./view01/a.jpg", "view00\\b.jpg"]);
        let b = list(&["view01/a.jpg", "view00/b.jpg", "view00/c.jpg"]);
        let found = pairs(&a, &b).unwrap();
        assert_eq!((found.pairs, found.key), (vec![(1, 0), (2, 1)], MatchKey::Name));
        assert_eq!(missing_names(&b, &a, MatchKey::Name), ["view00/c.jpg"]);
        let found = pairs(&list(&["v/a", "w/a"]), &list(&["w/a.jpg", "v/a.jpg"])).unwrap();
        assert_eq!((found.pairs, found.key), (vec![(1, 0), (0, 1)], MatchKey::NameWithoutExtension));
        let found = pairs(&list(&["x/p.1.JPG", "x/q"]), &list(&["q.png", "p.1"])).unwrap();
        assert_eq!((found.pairs, found.key), (vec![(1, 0), (0, 1)], MatchKey::Stem));
    }

    #[test]
    fn numbers_are_places() {
        let numbers = Trajectory { is_numbered: true, ..list(&["2", "0"]) };
        let numbers = Trajectory {
            poses: numbers
                .poses
                .iter()
                .map(|p| NamedPose { frame: p.name.parse().unwrap(), ..p.clone() })
                .collect(),
            ..numbers
        };
        let found = pairs(&numbers, &list(&["a", "b", "c"])).unwrap();
        assert_eq!((found.pairs, found.key), (vec![(1, 0), (0, 2)], MatchKey::Place));
        // A rig of two cameras: the first image of each frame.
        let mut rig = list(&["v/a", "v/b", "w/a", "w/b"]);
        rig.poses.iter_mut().zip([0, 1, 0, 1]).for_each(|(pose, frame)| pose.frame = frame);
        let stamps = Trajectory { is_numbered: true, ..list(&["0", "1"]) };
        assert_eq!(pairs(&rig, &stamps).unwrap().pairs, [(0, 0), (1, 1)]);
        assert_eq!(pairs(&stamps, &rig).unwrap().pairs, [(0, 0), (1, 1)]);
        let mut late = numbers;
        late.poses.iter_mut().for_each(|pose| pose.frame += 1_700_000_000);
        let refused = pairs(&list(&["a", "b", "c"]), &late).unwrap_err().to_string();
        assert_eq!(
            refused,
            "no time stamp is an index into the list of the first (expected 0 to 2, found 2)"
        );
    }

    #[test]
    fn twins_and_strangers_are_named() {
        let twice = pairs(&list(&["a.jpg", "images/a.jpg"]), &list(&["a.jpg"])).unwrap_err();
        assert_eq!(twice.to_string(), "\"a.jpg\" occurs 2 times in the first (expected once)");
        let views = pairs(&list(&["a", "b"]), &list(&["view00/a.jpg", "view01/a.jpg"])).unwrap_err();
        assert_eq!(views.to_string(), "\"a\" occurs 2 times in the second (expected once)");
        assert!(
            pairs(&list(&["a"]), &list(&["b"])).unwrap_err().to_string().starts_with("no name in common")
        );
    }
}
