//! HDR video (HLG and PQ transfer curves, as phones record) is converted to SDR by ffmpeg's filters `zscale` and
//! `tonemap`.
//!
//! ```text
//! HDR ─▶ linear light, 1 = reference white (203 cd/m², ITU-R BT.2408) ─▶ BT.709 primaries ─▶ highlights ─▶ BT.709 curve
//! ```

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_process::{OutputStream, Program};

/// Time limit for asking ffmpeg for its filters.
const FILTERS_TIMEOUT: Duration = Duration::from_secs(60);

/// Transfer curve of an HDR video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HdrCurve {
    /// Hybrid log-gamma, ARIB STD-B67.
    Hlg,
    /// Perceptual quantiser, SMPTE ST 2084: HDR10 and Dolby Vision.
    Pq,
}

impl HdrCurve {
    /// The curve with ffmpeg's name `color_transfer`, if it is an HDR curve.
    pub(super) fn from_transfer(color_transfer: &str) -> Option<Self> {
        [Self::Hlg, Self::Pq].into_iter().find(|curve| curve.transfer() == color_transfer)
    }

    const fn transfer(self) -> &'static str {
        match self {
            Self::Hlg => "arib-std-b67",
            Self::Pq => "smpte2084",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Hlg => "HLG",
            Self::Pq => "PQ",
        }
    }

    /// Filters that convert frames to SDR, as planes of R'G'B'. Stacking two streams loses the colour properties of
    /// frames, and some files specify the curve only: HDR video has BT.2020 colours.
    ///
    /// Light up to 0.9 of reference white stays as it is (Mobius curve), so that what SDR can show looks the same.
    pub(super) fn filters(self) -> String {
        let properties = format!("color_primaries=bt2020:colorspace=bt2020nc:color_trc={}", self.transfer());
        format!(
            "setparams={properties},zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,tonemap=mobius:param=0.9:desat=0,zscale=t=bt709:r=full,format=gbrp"
        )
    }

    /// The warning for an ffmpeg that cannot convert the video.
    pub(super) fn warning(self) -> String {
        format!(
            "is HDR video ({}), which this ffmpeg cannot convert (expected its filters zscale and tonemap); colours will look dull: install an ffmpeg with libzimg, or convert the video to SDR first",
            self.name()
        )
    }
}

/// Whether the installed ffmpeg has the filters; it is asked once.
pub(super) fn has_tone_mapping(stop: &AtomicBool) -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return *found;
    }
    let mut count = 0;
    let mut on_line = |stream, line: &str| {
        let name = line.split_whitespace().nth(1);
        if stream == OutputStream::Out && name.is_some_and(|name| matches!(name, "zscale" | "tonemap")) {
            count += 1;
        }
    };
    let asked = Program::new("ffmpeg").arg("-hide_banner").arg("-filters").silence_limit(FILTERS_TIMEOUT);
    // A stop is no answer.
    match asked.run(stop, &mut on_line) {
        Ok(_) => *FOUND.get_or_init(|| count == 2),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hdr_is_known_by_its_transfer_curve() {
        let of = HdrCurve::from_transfer;
        assert_eq!((of("arib-std-b67"), of("smpte2084")), (Some(HdrCurve::Hlg), Some(HdrCurve::Pq)));
        // BT.2020 colours with an SDR curve are no HDR.
        assert_eq!((of("bt709"), of("bt2020-10"), of("unknown")), (None, None, None));
        let warning = HdrCurve::Hlg.warning();
        assert!(
            warning.contains("HLG") && warning.contains("zscale") && !warning.contains('\n'),
            "{warning}"
        );
    }
}
