//! Colour settings and their definition as a function of linear light.
//!
//! ```text
//! R'G'B' of sRGB (IEC 61966-2-1) → linear light
//!   gains of the equaliser · 2^exposure · white balance           per channel
//!   L = 0.2126 R + 0.7152 G + 0.0722 B                            (ITU-R BT.709)
//!   brightness   L ← L^(2^-b/100)                                 white stays white
//!   contrast     L ← 0.18 (L / 0.18)^(2^(c/100))                  around middle grey
//!   highlights   L ← L 2^(h/100 · w),  w = smoothstep(0.5, 1, L')  L' = L as sRGB encodes it
//!   shadows      L ← L 2^(s/100 · (1 - smoothstep(0, 0.5, L')))
//!   R, G, B follow L in proportion
//!   black        v ← (v - k) / (1 - k),  k = black / 1000
//!   saturation, vibrance   v ← L + (v - L) (1 + s/100) (1 + v/100 (1 - (max - min) / max))
//! clamped to 0..1 → R'G'B' → LUT, which maps encoded values as in other programs
//! ```
//! With all settings at zero, colours are unchanged.

use serde::{Deserialize, Serialize};

/// Weights of red, green and blue in luminance.
const LUMINANCE: [f64; 3] = [0.2126, 0.7152, 0.0722];
/// Reflectance of middle grey, which contrast does not change.
const MIDDLE_GREY: f64 = 0.18;

/// Colour settings; 0 is neutral for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColourSettings {
    /// Exposure change in stops, -5 to 5.
    pub exposure: f64,
    /// White balance from blue (-100) to red (100): half a stop in each of the two channels at the ends.
    pub warmth: f64,
    /// White balance from green (-100) to magenta (100): half a stop at the ends.
    pub tint: f64,
    /// Brightness of the midtones, -100 to 100.
    pub brightness: f64,
    /// Contrast around middle grey, -100 to 100.
    pub contrast: f64,
    /// Brightness of highlights, up to one stop, -100 to 100.
    pub highlights: f64,
    /// Brightness of shadows, up to one stop, -100 to 100.
    pub shadows: f64,
    /// Black point in thousandths of linear light, -100 (lifted) to 100.
    pub black: f64,
    /// Saturation, -100 (grey) to 100.
    pub saturation: f64,
    /// Saturation of pale colours, -100 to 100.
    pub vibrance: f64,
}

/// Why a text cannot be parsed as a look.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ColourSettingsError {
    /// A part is not `KEY=VALUE`.
    #[error("expected KEY=VALUE, found `{0}`")]
    Malformed(String),
    /// Unknown setting.
    #[error("no setting `{0}` (expected one of {names})", names = ColourSettings::KEYS.map(|(key, _)| key).join(", "))]
    UnknownKey(String),
    /// A setting is given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// A value is out of range.
    #[error("{key}: expected {low}..{high}, found `{value}`")]
    Value {
        /// The setting.
        key: &'static str,
        /// Smallest valid value.
        low: f64,
        /// Largest valid value.
        high: f64,
        /// What was given.
        value: String,
    },
}

impl ColourSettings {
    /// Names of the settings with the largest absolute value of each.
    pub const KEYS: [(&'static str, f64); 10] = [
        ("exposure", 5.0),
        ("warmth", 100.0),
        ("tint", 100.0),
        ("brightness", 100.0),
        ("contrast", 100.0),
        ("highlights", 100.0),
        ("shadows", 100.0),
        ("black", 100.0),
        ("saturation", 100.0),
        ("vibrance", 100.0),
    ];

    fn slots(&mut self) -> [&mut f64; 10] {
        let Self { exposure, warmth, tint, brightness, contrast, highlights, shadows, black, .. } = self;
        let Self { saturation, vibrance, .. } = self;
        [exposure, warmth, tint, brightness, contrast, highlights, shadows, black, saturation, vibrance]
    }

    /// Parses `KEY=VALUE,KEY=VALUE`.
    ///
    /// # Errors
    /// Malformed text, an unknown or repeated name, or a value out of range.
    pub fn parse(text: &str) -> Result<Self, ColourSettingsError> {
        let mut look = Self::default();
        let mut seen: Vec<usize> = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let Some((key, value)) = part.split_once('=') else {
                return Err(ColourSettingsError::Malformed(part.to_owned()));
            };
            let (key, value) = (key.trim(), value.trim());
            let Some(index) = Self::KEYS.iter().position(|(name, _)| *name == key) else {
                return Err(ColourSettingsError::UnknownKey(key.to_owned()));
            };
            if seen.contains(&index) {
                return Err(ColourSettingsError::Twice(key.to_owned()));
            }
            seen.push(index);
            let (key, most) = Self::KEYS[index];
            let number = value.parse::<f64>().ok().filter(|v| v.abs() <= most);
            let number = number.ok_or_else(|| ColourSettingsError::Value {
                key,
                low: -most,
                high: most,
                value: value.to_owned(),
            })?;
            *look.slots()[index] = number;
        }
        Ok(look)
    }

    /// Whether all settings are neutral.
    #[must_use]
    pub fn is_neutral(&self) -> bool {
        *self == Self::default()
    }

    /// The settings that are not neutral, in the form that [`Self::parse`] reads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut copy = *self;
        let values = copy.slots().map(|value| *value);
        let parts = Self::KEYS.iter().zip(values).filter(|(_, value)| *value != 0.0);
        parts.map(|((key, _), value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    /// Gains of red, green and blue from exposure and white balance; white balance keeps the luminance of grey.
    #[must_use]
    pub fn gains(&self) -> [f64; 3] {
        let balance = [self.warmth / 200.0, -self.tint / 200.0, -self.warmth / 200.0].map(libm::exp2);
        let grey: f64 = balance.iter().zip(LUMINANCE).map(|(gain, share)| gain * share).sum();
        balance.map(|gain| gain / grey * libm::exp2(self.exposure))
    }

    /// Tone curve: log2 of the new luminance from log2 of the old one.
    #[must_use]
    pub fn tone_curve(&self, log: f64) -> f64 {
        let grey = libm::log2(MIDDLE_GREY);
        let brighter = log * libm::exp2(-self.brightness / 100.0);
        let steeper = grey + (brighter - grey) * libm::exp2(self.contrast / 100.0);
        let tone = srgb_from_linear(libm::exp2(steeper).min(1.0));
        let bright = smoothstep((tone - 0.5) / 0.5);
        let dark = 1.0 - smoothstep(tone / 0.5);
        steeper + self.highlights / 100.0 * bright + self.shadows / 100.0 * dark
    }

    /// Whether the tone curve changes luminance.
    #[must_use]
    pub fn has_tone(&self) -> bool {
        [self.brightness, self.contrast, self.highlights, self.shadows].iter().any(|v| *v != 0.0)
    }

    /// Whether black point, saturation or vibrance change colours.
    #[must_use]
    pub fn has_finish(&self) -> bool {
        [self.black, self.saturation, self.vibrance].iter().any(|v| *v != 0.0)
    }

    /// Applies what follows the tone curve: black point, saturation, vibrance.
    #[must_use]
    pub fn apply_finish(&self, rgb: [f64; 3]) -> [f64; 3] {
        let black = self.black / 1000.0;
        let rgb = rgb.map(|v| (v - black) / (1.0 - black));
        if self.saturation == 0.0 && self.vibrance == 0.0 {
            return rgb;
        }
        let (most, least) = (rgb[0].max(rgb[1]).max(rgb[2]), rgb[0].min(rgb[1]).min(rgb[2]));
        let paleness = if most > 0.0 { (least / most).clamp(0.0, 1.0) } else { 1.0 };
        let factor = (1.0 + self.saturation / 100.0) * (1.0 + self.vibrance / 100.0 * paleness);
        let luminance = luminance(rgb);
        rgb.map(|v| luminance + (v - luminance) * factor)
    }

    /// Applies all settings to linear light: the reference definition in f64.
    #[must_use]
    pub fn apply(&self, rgb: [f64; 3]) -> [f64; 3] {
        let gains = self.gains();
        let rgb = [0, 1, 2].map(|c| rgb[c] * gains[c]);
        let before = luminance(rgb);
        let factor = if self.has_tone() && before > 0.0 {
            libm::exp2(self.tone_curve(libm::log2(before))) / before
        } else {
            1.0
        };
        self.apply_finish(rgb.map(|v| v * factor))
    }
}

/// Luminance of linear light.
#[must_use]
pub fn luminance(rgb: [f64; 3]) -> f64 {
    rgb[0] * LUMINANCE[0] + rgb[1] * LUMINANCE[1] + rgb[2] * LUMINANCE[2]
}

/// Linear light of an encoded value (IEC 61966-2-1).
#[must_use]
pub fn linear_from_srgb(v: f64) -> f64 {
    if v <= 0.040_45 { v / 12.92 } else { libm::pow((v + 0.055) / 1.055, 2.4) }
}

/// Encoded value of linear light (IEC 61966-2-1).
#[must_use]
pub fn srgb_from_linear(v: f64) -> f64 {
    if v <= 0.003_130_8 { 12.92 * v } else { 1.055 * libm::pow(v, 1.0 / 2.4) - 0.055 }
}

fn smoothstep(t: f64) -> f64 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_read_and_mistakes_are_named() {
        let look = ColourSettings::parse("exposure=0.5, contrast=-10").unwrap();
        assert_eq!((look.exposure, look.contrast), (0.5, -10.0));
        assert_eq!(ColourSettings::parse(&look.text()), Ok(look));
        let message = |text: &str| ColourSettings::parse(text).unwrap_err().to_string();
        assert_eq!(message("exposure"), "expected KEY=VALUE, found `exposure`");
        assert!(message("exposre=1").starts_with("no setting `exposre` (expected one of exposure, warmth"));
        assert_eq!(message("exposure=9"), "exposure: expected -5..5, found `9`");
        assert_eq!(message("tint=nan"), "tint: expected -100..100, found `nan`");
        assert_eq!(message("tint=1,tint=2"), "`tint` is given twice");
    }

    #[test]
    fn each_setting_does_what_its_name_says() {
        let of = |text: &str, rgb| ColourSettings::parse(text).unwrap().apply(rgb);
        let near = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        let grey = [0.18; 3];
        assert!(near(of("exposure=1", [0.1, 0.2, 0.3]), [0.2, 0.4, 0.6]));
        // Middle grey keeps its luminance under white balance and contrast, white and black under brightness.
        assert!((luminance(of("warmth=80,tint=-30", grey)) - 0.18).abs() < 1e-12);
        let warm = of("warmth=100", grey);
        assert!((warm[0] / warm[2] - 2.0).abs() < 1e-12, "half a stop up and half down");
        assert!(near(of("contrast=50", grey), grey));
        assert!(of("contrast=50", [0.5; 3])[0] > 0.5 && of("contrast=50", [0.05; 3])[0] < 0.05);
        assert!(near(of("brightness=60", [1.0; 3]), [1.0; 3]) && of("brightness=60", grey)[0] > 0.3);
        assert!(
            near(of("highlights=-100", [0.01; 3]), [0.01; 3])
                && near(of("highlights=-100", [1.0; 3]), [0.5; 3])
        );
        assert!(near(of("shadows=100", [0.5; 3]), [0.5; 3]) && of("shadows=100", [0.01; 3])[0] > 0.018);
        assert!(of("black=100", [0.1; 3])[0].abs() < 1e-12);
        assert!(near(of("saturation=-100", [0.4, 0.1, 0.2]), [luminance([0.4, 0.1, 0.2]); 3]));
        // Vibrance changes pale colours more, relative to their saturation.
        let moved = |rgb: [f64; 3]| {
            let after = of("vibrance=50", rgb);
            (after[0] - luminance(after)) / (rgb[0] - luminance(rgb))
        };
        assert!(moved([0.22, 0.2, 0.2]) > 1.4 && moved([0.5, 0.01, 0.01]) < 1.1);
        assert!(near(ColourSettings::default().apply([0.2, 0.4, 0.9]), [0.2, 0.4, 0.9]));
    }

    #[test]
    fn tones_never_turn_around() {
        for text in
            ["highlights=-100", "shadows=100", "highlights=-100,shadows=100,contrast=-50", "shadows=-100"]
        {
            let look = ColourSettings::parse(text).unwrap();
            let values: Vec<f64> = (-400..40).map(|k| look.tone_curve(f64::from(k) / 40.0)).collect();
            assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
        }
    }
}
