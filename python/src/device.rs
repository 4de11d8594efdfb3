//! Names of devices.

use std::sync::{Mutex, PoisonError};

use gausset::Failure;
use gausset::device::{Device, DeviceOptions};

/// The device of a name: `auto`, `cpu`, `gpu`, or a part of a GPU's name.
pub(crate) fn device_options(name: &str) -> Result<DeviceOptions, Failure> {
    let device = match name {
        "auto" => Device::Auto,
        "cpu" => Device::Cpu,
        "gpu" => Device::Gpu,
        "" | "cuda" | "vulkan" | "metal" | "dx12" | "mps" => {
            let line = format!("device: expected auto|cpu|gpu, or a part of a GPU's name, found `{name}`");
            return Err(Failure::usage(line));
        }
        name => Device::Named(kept(name)),
    };
    Ok(DeviceOptions { device, ..DeviceOptions::default() })
}

/// The same text for the rest of the process: [`Device::Named`] borrows it. Each name is kept once.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().find(|known| **known == name) {
        return known;
    }
    let name: &'static str = name.to_owned().leak();
    names.push(name);
    name
}
