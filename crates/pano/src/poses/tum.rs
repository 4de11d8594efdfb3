//! TUM trajectories: `timestamp tx ty tz qx qy qz qw` in each line, world from camera, `#` before comments.
//!
//! Source: the file formats of the RGB-D benchmark (Sturm et al. 2012).

use gausset_core::Pose;
use gausset_io::dataset::exports::parse_numbers;

use super::{FileProblem, NamedPose, Trajectory};

/// Parses a trajectory; the names are the time stamps as written.
///
/// # Errors
/// A line without eight numbers, or with an invalid quaternion.
pub fn parse(text: &str) -> Result<Trajectory, FileProblem> {
    let mut poses = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("line {number}");
        let [_, tx, ty, tz, qx, qy, qz, qw] = parse_numbers::<8>(line).ok_or_else(|| {
            FileProblem::new(&place, "not 8 finite numbers (expected: timestamp tx ty tz qx qy qz qw)")
        })?;
        let pose = Pose::from_quaternion([qw, qx, qy, qz], [tx, ty, tz])
            .map_err(|problem| FileProblem::new(&place, problem))?
            .inverse();
        let name = line.split_ascii_whitespace().next().unwrap_or_default().to_owned();
        poses.push(NamedPose { name, pose, frame: poses.len() as u32 });
    }
    // If all time stamps are whole numbers they are list indices, as [`write`] makes them; frames without a pose are
    // missing.
    let places: Option<Vec<u32>> = poses.iter().map(|pose| pose.name.parse().ok()).collect();
    for (pose, place) in poses.iter_mut().zip(places.unwrap_or_default()) {
        pose.frame = place;
    }
    Ok(Trajectory { is_numbered: true, ..Trajectory::new("TUM", poses) })
}

/// Formats a trajectory; the time stamps are list indices.
#[must_use]
pub fn write(poses: &[NamedPose]) -> String {
    let mut out = "# timestamp tx ty tz qx qy qz qw (world from camera; timestamps are places in the list)\n"
        .to_owned();
    for NamedPose { pose, frame: moment, .. } in poses {
        let [tx, ty, tz] = pose.centre();
        let [w, x, y, z] = pose.inverse().quaternion();
        out += &format!("{moment} {tx} {ty} {tz} {x} {y} {z} {w}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::examples::{assert_same, poses};
    use super::*;

    #[test]
    fn poses_come_back() {
        let back = parse(&write(&poses())).unwrap();
        assert_same(&back.poses, &poses());
        assert_eq!(back.poses[3].name, "3");
    }

    #[test]
    fn a_line_as_the_benchmark_has_it() {
        // A quarter turn about z: the camera's x axis is the world's y axis.
        let text = "# ground truth\n\n1305031102.175304 1.5 -2 0.25 0 0 0.70710678118 0.70710678118\r\n";
        let found = parse(text).unwrap();
        let NamedPose { name, pose, .. } = &found.poses[0];
        assert_eq!(name, "1305031102.175304");
        let c = pose.centre();
        assert!((c[0] - 1.5).abs() + (c[1] + 2.0).abs() + (c[2] - 0.25).abs() < 1e-9);
        let x = pose.inverse().apply([1.0, 0.0, 0.0]);
        assert!((x[0] - c[0]).abs() < 1e-9 && (x[1] - c[1] - 1.0).abs() < 1e-9, "{x:?}");
    }

    #[test]
    fn whole_numbers_are_places_and_seconds_are_not() {
        let moments = |stamps: [&str; 3]| -> Vec<u32> {
            let text: String = stamps.iter().map(|stamp| format!("{stamp} 0 0 0 0 0 0 1\n")).collect();
            parse(&text).unwrap().poses.iter().map(|pose| pose.frame).collect()
        };
        assert_eq!(moments(["0", "2", "5"]), [0, 2, 5]);
        assert_eq!(moments(["0", "0.5", "1"]), [0, 1, 2]);
        assert_eq!(moments(["1305031102", "1305031102.5", "1305031103"]), [0, 1, 2]);
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, place) in
            [("1 2 3", "line 1"), ("#\n1 0 0 0 0 0 0 0", "line 2"), ("1 0 0 nan 0 0 0 1", "line 1")]
        {
            assert_eq!(parse(text).unwrap_err().location, place);
        }
    }
}
