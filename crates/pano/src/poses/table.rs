//! CSV tables: Gausset's trajectory, and RealityCapture's "Internal/External camera parameters".
//!
//! ```text
//! Gausset         name,x,y,z,qw,qx,qy,qz                                     centre; world_from_camera
//! RealityCapture  #name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2   `gausset_io::dataset::exports`
//! ```
//! Columns are found by name, in any order, separated by `,`, `;` or tabs; other columns are ignored.

use gausset_core::Pose;
use gausset_core::se3;
use gausset_io::dataset::exports::{pose_from_centre, realitycapture};
use gausset_io::text::{excerpt, quote};

use super::{FileProblem, NamedPose, Trajectory, invalid_pose};

/// Parses a table.
///
/// # Errors
/// Missing columns, a cell that is not a number, or an invalid pose.
pub fn parse(bytes: &[u8]) -> Result<Trajectory, FileProblem> {
    // Older versions write the number of cameras in a line before the header.
    let body = match bytes.split_inclusive(|b| *b == b'\n').next() {
        Some(first) if first.starts_with(b"#cameras") => &bytes[first.len()..],
        _ => bytes,
    };
    let first = body.split(|b| *b == b'\n').next().unwrap_or_default();
    let delimiter = [b',', b';', b'\t'].into_iter().find(|d| first.contains(d)).unwrap_or(b',');
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).trim(csv::Trim::All).from_reader(body);
    let header = reader.byte_headers().map_err(|e| FileProblem::new("line 1", e))?.clone();
    if realitycapture::is_table(body) && !has_quaternion(&header) {
        return Trajectory::from_export("RealityCapture CSV", realitycapture::parse_table(bytes)?);
    }
    let column = |names: &[&str]| {
        header.iter().position(|h| {
            let h = h.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(h);
            let h = h.strip_prefix(b"#").unwrap_or(h);
            names.iter().any(|name| h.eq_ignore_ascii_case(name.as_bytes()))
        })
    };
    let all = |names: [&[&str]; 3]| -> Option<[usize; 3]> {
        Some([column(names[0])?, column(names[1])?, column(names[2])?])
    };
    let name = column(&["name", "image", "filename"]);
    let centre = all([&["x"], &["y"], &["z", "alt", "altitude"]]);
    let axis = all([&["qx"], &["qy"], &["qz"]]);
    let quaternion = axis.zip(column(&["qw"]));
    let (Some(name), Some(centre), Some((axis, w))) = (name, centre, quaternion) else {
        return Err(missing_columns(&header));
    };
    let mut poses = Vec::new();
    for record in reader.byte_records() {
        let record = record.map_err(|e| FileProblem::new("table", e))?;
        let place = format!("line {}", record.position().map_or(0, csv::Position::line));
        let cell = |at: usize| -> Result<f64, FileProblem> {
            let text = record.get(at).and_then(|c| std::str::from_utf8(c).ok()).unwrap_or_default();
            text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| {
                let title = excerpt(&String::from_utf8_lossy(header.get(at).unwrap_or_default()));
                FileProblem::new(&place, format!("{title}: {} is not a finite number", quote(text)))
            })
        };
        let three = |at: [usize; 3]| -> Result<[f64; 3], FileProblem> {
            Ok([cell(at[0])?, cell(at[1])?, cell(at[2])?])
        };
        let centre = three(centre)?;
        let [x, y, z] = three(axis)?;
        let pose = Pose::from_quaternion([cell(w)?, x, y, z], [0.0; 3]);
        let rotation = se3::transpose(&pose.map_err(|e| FileProblem::new(&place, e))?.rotation);
        let name = String::from_utf8_lossy(record.get(name).unwrap_or_default()).into_owned();
        if name.is_empty() {
            return Err(FileProblem::new(&place, "name: is empty"));
        }
        let pose = pose_from_centre(rotation, centre).map_err(|e| invalid_pose(&name, &e))?;
        poses.push(NamedPose { name, pose, frame: poses.len() as u32 });
    }
    Ok(Trajectory::new("CSV", poses))
}

fn has_quaternion(header: &csv::ByteRecord) -> bool {
    [b"qx", b"qy", b"qz", b"qw"].iter().all(|name| header.iter().any(|h| h.eq_ignore_ascii_case(*name)))
}

fn missing_columns(header: &csv::ByteRecord) -> FileProblem {
    let found: Vec<_> = header.iter().take(12).map(String::from_utf8_lossy).collect();
    let found = if found.is_empty() { "none".to_owned() } else { excerpt(&found.join(",")) };
    let expected = "name,x,y,z,qw,qx,qy,qz or #name,x,y,alt,heading,pitch,roll";
    FileProblem::new("line 1", format!("columns are missing (expected {expected}; found {found})"))
}

/// Heading, pitch and roll of a `camera_from_world`, degrees.
fn realitycapture_angles(pose: &Pose) -> [f64; 3] {
    let r = se3::transpose(&pose.rotation).map(|row| [row[0], -row[1], -row[2]]);
    // Rz(a) Rx(b) Ry(c): third row (-cos b sin c, sin b, cos b cos c), second column (-sin a cos b, cos a cos b, sin b).
    let cos = libm::sqrt(r[0][1] * r[0][1] + r[1][1] * r[1][1]);
    let pitch = libm::atan2(r[2][1], cos);
    let (a, roll) = if cos > 1e-9 {
        (libm::atan2(-r[0][1], r[1][1]), libm::atan2(-r[2][0], r[2][2]))
    } else {
        // Gimbal lock: heading and roll rotate about the same axis, so roll is set to 0.
        (libm::atan2(r[1][0], r[0][0]), 0.0)
    };
    [-a.to_degrees(), pitch.to_degrees(), roll.to_degrees()]
}

/// Formats Gausset's table.
#[must_use]
pub fn write(poses: &[NamedPose]) -> String {
    let mut out = "name,x,y,z,qw,qx,qy,qz\n".to_owned();
    for NamedPose { name, pose, .. } in poses {
        let [x, y, z] = pose.centre();
        let [a, b, c, d] = pose.inverse().quaternion();
        out += &format!("{},{x},{y},{z},{a},{b},{c},{d}\n", csv_cell(name));
    }
    out
}

/// Formats RealityCapture's table. `focal` gives the focal length of each image for 36 mm on its longer side.
#[must_use]
pub fn write_realitycapture(poses: &[NamedPose], focal: impl Fn(usize) -> f64) -> String {
    let mut out = "#name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2\n".to_owned();
    for (index, NamedPose { name, pose, .. }) in poses.iter().enumerate() {
        let [x, y, z] = pose.centre();
        let [heading, pitch, roll] = realitycapture_angles(pose);
        out += &format!(
            "{},{x},{y},{z},{heading},{pitch},{roll},{},0,0,0,0,0,0,0,0\n",
            csv_cell(name),
            focal(index)
        );
    }
    out
}

/// A name as a CSV cell, quoted if it contains a comma, quotes or a line break.
#[must_use]
pub fn csv_cell(name: &str) -> String {
    if name.contains([',', '"', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{assert_same, poses};
    use super::*;

    #[test]
    fn both_tables_come_back() {
        let mut given = poses();
        given[1].name = "a, \"b\".jpg".into();
        for text in [write(&given), write_realitycapture(&given, |_| 18.0)] {
            let back = parse(text.as_bytes()).unwrap();
            assert_same(&back.poses, &given);
            assert!(back.poses.iter().zip(&given).all(|(a, b)| a.name == b.name));
        }
        let other = write(&given[..1]).replace(',', ";");
        assert_same(&parse(other.as_bytes()).unwrap().poses, &given[..1]);
        // Looking straight up or down, heading and roll cannot be separated.
        for pitch in [90.0, -90.0] {
            let r = realitycapture::opengl_rotation(30.0, pitch, 20.0);
            let rotation = se3::transpose(&r.map(|row| [row[0], -row[1], -row[2]]));
            let given =
                [NamedPose { pose: Pose { rotation, translation: [1.0, 2.0, 3.0] }, ..given[0].clone() }];
            assert_same(&parse(write_realitycapture(&given, |_| 1.0).as_bytes()).unwrap().poses, &given);
        }
    }

    #[test]
    fn a_table_of_realitycapture() {
        // Heading, pitch, roll 0: straight down, top of the image to the north (y). Pitch 90: horizontal to the north.
        let text = "#cameras 2\r\n#name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2\r\n\
            a.jpg,1,2,30,0,0,0,24,0,0,0,0,0,0,0,0\r\nb.jpg,5,6,2,90,90,0,24,0,0,0,0,0,0,0,0\r\n";
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!((found.format, found.poses.len()), ("RealityCapture CSV", 2));
        let axis = |k: usize, d| se3::transpose_mul_vec(&found.poses[k].pose.rotation, d);
        let near = |a: [f64; 3], b: [f64; 3]| (0..3).all(|k| (a[k] - b[k]).abs() < 1e-12);
        assert!(near(axis(0, [0.0, 0.0, 1.0]), [0.0, 0.0, -1.0]));
        assert!(near(axis(0, [0.0, -1.0, 0.0]), [0.0, 1.0, 0.0]));
        // Heading 90 is east.
        assert!(near(axis(1, [0.0, 0.0, 1.0]), [1.0, 0.0, 0.0]), "{:?}", axis(1, [0.0, 0.0, 1.0]));
        assert!(near(axis(1, [0.0, -1.0, 0.0]), [0.0, 0.0, 1.0]));
        assert!(near(found.poses[1].pose.centre(), [5.0, 6.0, 2.0]));
    }

    #[test]
    fn bad_tables_are_named() {
        for (text, line) in [
            (
                "",
                "line 1: columns are missing (expected name,x,y,z,qw,qx,qy,qz or #name,x,y,alt,heading,pitch,roll; found none)",
            ),
            (
                "#name,x,y,alt,heading,pitch\na,1,2,3,4,5\n",
                "line 1: columns are missing (expected name,x,y,z,qw,qx,qy,qz or #name,x,y,alt,heading,pitch,roll; found #name,x,y,alt,heading,pitch)",
            ),
            (
                "name,x,y,z,qw,qx,qy,qz\na,1,2,3,1,0,0,0\nb,1,2,x,1,0,0,0\n",
                "line 3: z: \"x\" is not a finite number",
            ),
            ("name,x,y,z,qw,qx,qy,qz\na,1,2,3,9,0,0,0\n", "line 2: quaternion has length 9"),
            ("name,x,y,z,qw,qx,qy,qz\n,1,2,3,1,0,0,0\n", "line 2: name: is empty"),
        ] {
            let found = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(found.starts_with(line), "{found}");
        }
    }
}
