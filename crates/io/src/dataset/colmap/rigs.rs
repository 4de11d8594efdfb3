//! Writes camera rigs and their frames (COLMAP 3.12 and later).
//!
//! ```text
//! rigs.bin    u64 n; per rig u32 id, u32 sensors, i32 0, u32 reference camera; per other sensor i32 0, u32 camera,
//!             u8 1, 7 f64 cam_from_rig (qw qx qy qz tx ty tz)
//! frames.bin  u64 n; per frame u32 id, u32 rig, 7 f64 rig_from_world, u32 m, m x (i32 0, u32 camera, u64 image)
//! ```
//! Sensor type 0 is a camera; the text form has the word `CAMERA`.

use std::fmt::Write as _;

use gausset_core::Pose;

use super::ModelFormat;

/// One rig and its frames.
#[derive(Clone, Debug, PartialEq)]
pub struct RigModel {
    /// Camera ids with `cam_from_rig`. The first is the reference, whose pose is not written.
    pub sensors: Vec<(u32, Pose)>,
    /// Frames; ids count from 1 in this order.
    pub frames: Vec<RigFrame>,
}

/// A frame: images that the rig took at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct RigFrame {
    /// Pose of the rig.
    pub rig_from_world: Pose,
    /// Camera id and image id of each image.
    pub images: Vec<(u32, u32)>,
}

fn values(pose: &Pose) -> impl Iterator<Item = f64> {
    pose.quaternion().into_iter().chain(pose.translation)
}

impl RigModel {
    /// Names and contents of the two files.
    #[must_use]
    pub fn to_files(&self, format: ModelFormat) -> [(&'static str, Vec<u8>); 2] {
        match format {
            ModelFormat::Binary => [("rigs.bin", self.rigs_binary()), ("frames.bin", self.frames_binary())],
            ModelFormat::Text => [("rigs.txt", self.rigs_text()), ("frames.txt", self.frames_text())],
        }
    }

    fn reference(&self) -> u32 {
        self.sensors.first().map_or(0, |(camera, _)| *camera)
    }

    fn rigs_binary(&self) -> Vec<u8> {
        let mut out = 1u64.to_le_bytes().to_vec();
        out.extend(1u32.to_le_bytes());
        out.extend((self.sensors.len() as u32).to_le_bytes());
        out.extend(0i32.to_le_bytes());
        out.extend(self.reference().to_le_bytes());
        for (camera, pose) in self.sensors.iter().skip(1) {
            out.extend(0i32.to_le_bytes());
            out.extend(camera.to_le_bytes());
            out.push(1);
            out.extend(values(pose).flat_map(f64::to_le_bytes));
        }
        out
    }

    fn frames_binary(&self) -> Vec<u8> {
        let mut out = (self.frames.len() as u64).to_le_bytes().to_vec();
        for (id, frame) in (1u32..).zip(&self.frames) {
            out.extend(id.to_le_bytes());
            out.extend(1u32.to_le_bytes());
            out.extend(values(&frame.rig_from_world).flat_map(f64::to_le_bytes));
            out.extend((frame.images.len() as u32).to_le_bytes());
            for (camera, image) in &frame.images {
                out.extend(0i32.to_le_bytes());
                out.extend(camera.to_le_bytes());
                out.extend(u64::from(*image).to_le_bytes());
            }
        }
        out
    }

    fn rigs_text(&self) -> Vec<u8> {
        let mut out =
            String::from("# RIG_ID NUM_SENSORS REF_TYPE REF_ID [TYPE ID HAS_POSE QW QX QY QZ TX TY TZ]...\n");
        // Writing to a string cannot fail.
        let _ = write!(out, "1 {} CAMERA {}", self.sensors.len(), self.reference());
        for (camera, pose) in self.sensors.iter().skip(1) {
            let _ = write!(out, " CAMERA {camera} 1");
            for value in values(pose) {
                let _ = write!(out, " {value}");
            }
        }
        out.push('\n');
        out.into_bytes()
    }

    fn frames_text(&self) -> Vec<u8> {
        let mut out =
            String::from("# FRAME_ID RIG_ID QW QX QY QZ TX TY TZ NUM_DATA [TYPE SENSOR_ID DATA_ID]...\n");
        for (id, frame) in (1u32..).zip(&self.frames) {
            let _ = write!(out, "{id} 1");
            for value in values(&frame.rig_from_world) {
                let _ = write!(out, " {value}");
            }
            let _ = write!(out, " {}", frame.images.len());
            for (camera, image) in &frame.images {
                let _ = write!(out, " CAMERA {camera} {image}");
            }
            out.push('\n');
        }
        out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::colmap::frames;
    use std::path::Path;

    #[test]
    fn frames_that_are_written_can_be_read_in_both_forms() {
        let pose = Pose::from_quaternion([0.5, 0.5, -0.5, 0.5], [1.0, 2.0, 3.0]).unwrap();
        let frame = |first| RigFrame { rig_from_world: pose, images: vec![(1, first), (2, first + 1)] };
        let model =
            RigModel { sensors: vec![(1, Pose::IDENTITY), (2, pose)], frames: vec![frame(1), frame(3)] };
        let [rigs, binary] = model.to_files(ModelFormat::Binary);
        // One rig: 8 + 16 bytes; one further sensor: 9 + 56.
        assert_eq!(rigs.1.len(), 8 + 16 + 9 + 56);
        let found = frames::read_binary(Path::new("frames.bin"), std::io::Cursor::new(&binary.1)).unwrap();
        let [_, text] = model.to_files(ModelFormat::Text);
        let same = frames::read_text(Path::new("frames.txt"), &text.1[..]).unwrap();
        assert_eq!(found, same);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 1), (3, 2), (4, 2)]);
    }
}
