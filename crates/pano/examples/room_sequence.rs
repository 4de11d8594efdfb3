//! Renders the procedural room along a path: `room_sequence DIR [FRAMES] [WIDTH]` writes DIR/frame_NN.png and
//! DIR/truth.json with the pose of each frame, for `gausset pano run DIR` and for tests.
#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::path::PathBuf;

use gausset_compute::Pool;
use gausset_io::image::encode::png_rgb8;
use gausset_scenes::room::{self, Room};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: room_sequence DIR [FRAMES] [WIDTH]")?);
    let count: usize = arguments.next().map_or(Ok(16), |a| a.parse())?;
    let width: u32 = arguments.next().map_or(Ok(2048), |a| a.parse())?;
    let pool = Pool::with_all_cores();
    std::fs::create_dir_all(&folder)?;
    let mut truth = serde_json::Map::new();
    for k in 0..count {
        let pose = room::pose(k, count);
        let name = format!("frame_{k:02}");
        let picture = Room::FOR_REGISTRATION.panorama(width, &pose, &pool);
        std::fs::write(folder.join(format!("{name}.png")), png_rgb8(&picture)?)?;
        truth.insert(name, json!({ "rotation": pose.rotation, "centre": pose.centre() }));
    }
    std::fs::write(folder.join("truth.json"), serde_json::to_string_pretty(&truth)?)?;
    println!("{} ({count} panoramas of {width}x{} px)", folder.display(), width / 2);
    Ok(())
}
