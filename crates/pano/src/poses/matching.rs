//! Pairs the poses of two trajectories that belong to the same image.

use std::collections::BTreeMap;

use super::{NamedPose, Trajectory};

/// Key by which images were paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MatchedBy {
    /// Name including folders.
    Name,
    /// Name including folders, without extension.
    NameWithoutExtension,
    /// Name without folders and extension.
    Stem,
    /// List index, which one trajectory has instead of names.
    Place,
}

/// Paired poses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// Indices into the first and the second trajectory, in the order of the second.
    pub pairs: Vec<(usize, usize)>,
    /// Key of the pairs.
    pub by: MatchedBy,
}

/// Why trajectories could not be paired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// A name occurs more than once.
    #[error("{name:?} occurs {count} times in {which} (expected once)")]
    Twice {
        /// Description of the trajectory, for the message.
        which: &'static str,
        /// The name.
        name: String,
        /// Number of occurrences.
        count: usize,
    },
    /// No time stamp is an index into the other list.
    #[error("no time stamp is an index into the list of {called} (expected 0 to {}, found {stamp})", count.saturating_sub(1))]
    NoPlace {
        /// Description of the trajectory with names.
        called: &'static str,
        /// The first time stamp.
        stamp: String,
        /// Number of names.
        count: usize,
    },
    /// The trajectories have no name in common.
    #[error("no name in common ({first:?} and others in {}, {second:?} and others in {})", called[0], called[1])]
    Nothing {
        /// Descriptions of both trajectories.
        called: [&'static str; 2],
        /// A name of the first trajectory.
        first: String,
        /// A name of the second trajectory.
        second: String,
    },
}

/// Normalises a name: `/` between folders, without a leading `./` or `images/`.
fn plain(name: &str) -> String {
    let name = name.replace('\\', "/");
    let name = name.trim_start_matches("./");
    name.strip_prefix("images/").unwrap_or(name).to_owned()
}

/// The normalised name without an image extension.
fn without_extension(name: &str) -> String {
    let name = plain(name);
    match name.rsplit_once('.') {
        Some((stem, extension)) if is_picture(extension) && !stem.is_empty() => stem.to_owned(),
        _ => name,
    }
}

/// The normalised name without folders and image extension.
fn stem(name: &str) -> String {
    let name = without_extension(name);
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_picture(extension: &str) -> bool {
    ["jpg", "jpeg", "png", "tif", "tiff", "webp", "exr", "dng"]
        .iter()
        .any(|e| extension.eq_ignore_ascii_case(e))
}

fn index(
    list: &Trajectory,
    which: &'static str,
    key: impl Fn(&NamedPose) -> String,
) -> Result<BTreeMap<String, usize>, MatchError> {
    let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (at, pose) in list.poses.iter().enumerate() {
        places.entry(key(pose)).and_modify(|(_, count)| *count += 1).or_insert((at, 1));
    }
    match places.iter().find(|(_, (_, count))| *count > 1) {
        Some((name, (_, count))) => Err(MatchError::Twice { which, name: name.clone(), count: *count }),
        None => Ok(places.into_iter().map(|(name, (at, _))| (name, at)).collect()),
    }
}

/// Pairs poses by name, or, if no names match, by name without extension, then by stem or list index. `called`
/// describes the trajectories in error messages.
///
/// # Errors
/// A name occurs twice, or none is common.
pub fn pairs(
    first: &Trajectory,
    second: &Trajectory,
    called: [&'static str; 2],
) -> Result<Pairs, MatchError> {
    let by = |by: MatchedBy, key: &dyn Fn(&NamedPose) -> String| -> Result<Pairs, MatchError> {
        let known = index(first, called[0], key)?;
        index(second, called[1], key)?;
        let pair = |(at, pose): (usize, &NamedPose)| Some((*known.get(&key(pose))?, at));
        Ok(Pairs { pairs: second.poses.iter().enumerate().filter_map(pair).collect(), by })
    };
    let found = by(MatchedBy::Name, &|p| plain(&p.name))?;
    if !found.pairs.is_empty() {
        return Ok(found);
    }
    let found = by(MatchedBy::NameWithoutExtension, &|p| without_extension(&p.name))?;
    if !found.pairs.is_empty() {
        return Ok(found);
    }
    let found = if first.is_numbered != second.is_numbered {
        by(MatchedBy::Place, &|p| p.moment.to_string())?
    } else {
        by(MatchedBy::Stem, &|p| stem(&p.name))?
    };
    if found.pairs.is_empty() && found.by == MatchedBy::Place {
        let [numbers, names] = if first.is_numbered { [first, second] } else { [second, first] };
        let called = if first.is_numbered { called[1] } else { called[0] };
        let stamp = numbers.poses.first().map(|p| p.name.clone()).unwrap_or_default();
        return Err(MatchError::NoPlace { called, stamp, count: names.poses.len() });
    }
    if found.pairs.is_empty() {
        let name = |list: &Trajectory| list.poses.first().map(|p| p.name.clone()).unwrap_or_default();
        return Err(MatchError::Nothing { called, first: name(first), second: name(second) });
    }
    Ok(found)
}

/// Names of `list` that are missing in `others`, compared by the key of the pairs.
#[must_use]
pub fn missing(list: &Trajectory, others: &Trajectory, by: MatchedBy) -> Vec<String> {
    let key = |name: &str, moment: u32| match by {
        MatchedBy::Name => plain(name),
        MatchedBy::NameWithoutExtension => without_extension(name),
        MatchedBy::Stem => stem(name),
        MatchedBy::Place => moment.to_string(),
    };
    let known: std::collections::BTreeSet<String> =
        others.poses.iter().map(|p| key(&p.name, p.moment)).collect();
    let is_missing = |p: &&NamedPose| !known.contains(&key(&p.name, p.moment));
    list.poses.iter().filter(is_missing).map(|p| p.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use gausset_core::Pose;

    use super::*;

    fn pairs(first: &Trajectory, second: &Trajectory) -> Result<Pairs, MatchError> {
        super::pairs(first, second, ["the first", "the second"])
    }

    fn list(names: &[&str]) -> Trajectory {
        let pose =
            |(moment, name): (u32, &&str)| NamedPose { name: (*name).into(), pose: Pose::IDENTITY, moment };
        Trajectory::new("test", (0..).zip(names).map(pose).collect())
    }

    #[test]
    fn names_come_before_stems() {
        let a = list(&["images/view00/a.jpg", "./view01/a.jpg", "view00\\b.jpg"]);
        let b = list(&["view01/a.jpg", "view00/b.jpg", "view00/c.jpg"]);
        let found = pairs(&a, &b).unwrap();
        assert_eq!((found.pairs, found.by), (vec![(1, 0), (2, 1)], MatchedBy::Name));
        assert_eq!(missing(&b, &a, MatchedBy::Name), ["view00/c.jpg"]);
        let found = pairs(&list(&["v/a", "w/a"]), &list(&["w/a.jpg", "v/a.jpg"])).unwrap();
        assert_eq!((found.pairs, found.by), (vec![(1, 0), (0, 1)], MatchedBy::NameWithoutExtension));
        let found = pairs(&list(&["x/p.1.JPG", "x/q"]), &list(&["q.png", "p.1"])).unwrap();
        assert_eq!((found.pairs, found.by), (vec![(1, 0), (0, 1)], MatchedBy::Stem));
    }

    #[test]
    fn numbers_are_places() {
        let numbers = Trajectory { is_numbered: true, ..list(&["2", "0"]) };
        let numbers = Trajectory {
            poses: numbers
                .poses
                .iter()
                .map(|p| NamedPose { moment: p.name.parse().unwrap(), ..p.clone() })
                .collect(),
            ..numbers
        };
        let found = pairs(&numbers, &list(&["a", "b", "c"])).unwrap();
        assert_eq!((found.pairs, found.by), (vec![(1, 0), (0, 2)], MatchedBy::Place));
        let mut late = numbers;
        late.poses.iter_mut().for_each(|pose| pose.moment += 1_700_000_000);
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
