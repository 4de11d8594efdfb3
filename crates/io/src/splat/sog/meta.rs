//! The `meta.json` of a SOG.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use serde::Deserialize;

/// Number of entries of a codebook.
pub(super) const CODEBOOK: usize = 256;

#[derive(Deserialize)]
pub(super) struct Meta {
    /// `None` in version 1.
    pub(super) version: Option<u32>,
    count: Option<u64>,
    /// Generator of the file and its additional data.
    #[serde(default)]
    pub(super) asset: serde_json::Value,
    model: Option<String>,
    #[serde(default)]
    antialias: bool,
    pub(super) means: Means,
    pub(super) scales: Values,
    pub(super) quats: Files,
    pub(super) sh0: Values,
    #[serde(rename = "shN")]
    pub(super) sh_rest: Option<Palette>,
}

#[derive(Deserialize)]
pub(super) struct Means {
    shape: Option<Vec<u64>>,
    pub(super) mins: [f64; 3],
    pub(super) maxs: [f64; 3],
    pub(super) files: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Files {
    pub(super) files: Vec<String>,
}

/// Values of a codebook. Older versions of splat-transform wrote NaN for the first, which JSON has as null.
type Codebook = Vec<Option<f64>>;

/// Bytes of several channels: through a codebook, or linear in a range per channel.
#[derive(Deserialize)]
pub(super) struct Values {
    codebook: Option<Codebook>,
    mins: Option<Vec<f64>>,
    maxs: Option<Vec<f64>>,
    pub(super) files: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Palette {
    pub(super) count: Option<u64>,
    pub(super) bands: Option<u8>,
    codebook: Option<Codebook>,
    mins: Option<f64>,
    maxs: Option<f64>,
    pub(super) files: Vec<String>,
}

impl Meta {
    /// Number of splats.
    pub(super) fn count(&self) -> Option<u64> {
        self.count.or_else(|| self.means.shape.as_ref()?.first().copied())
    }

    pub(super) fn is_antialiased(&self) -> bool {
        self.antialias || self.model.as_deref() == Some("antialiased")
    }

    pub(super) fn is_flat(&self) -> bool {
        self.model.as_deref() == Some("2dgs")
    }
}

impl Values {
    /// Value of each byte of each channel; `None` if numbers are missing or invalid.
    pub(super) fn tables<const N: usize>(&self) -> Option<[[f32; CODEBOOK]; N]> {
        if let Some(codebook) = &self.codebook {
            return table(codebook).map(|table| [table; N]);
        }
        let (mins, maxs) = (self.mins.as_ref()?, self.maxs.as_ref()?);
        let mut tables = [[0.0; CODEBOOK]; N];
        for (k, out) in tables.iter_mut().enumerate() {
            *out = linear(*mins.get(k)?, *maxs.get(k)?)?;
        }
        Some(tables)
    }

    /// Value of each opacity byte if opacities are logits in a range, as in version 1.
    pub(super) fn logits(&self) -> Option<[f32; CODEBOOK]> {
        if self.codebook.is_some() {
            return None;
        }
        linear(*self.mins.as_ref()?.get(3)?, *self.maxs.as_ref()?.get(3)?)
    }
}

impl Palette {
    /// Value of each byte.
    pub(super) fn table(&self) -> Option<[f32; CODEBOOK]> {
        match &self.codebook {
            Some(codebook) => table(codebook),
            None => linear(self.mins?, self.maxs?),
        }
    }
}

/// The values; a missing first one continues the others as in PlayCanvas.
fn table(codebook: &[Option<f64>]) -> Option<[f32; CODEBOOK]> {
    let first = match codebook {
        [None, Some(second), .., Some(last)] => second + (second - last) / 255.0,
        [first, ..] => (*first)?,
        [] => return None,
    };
    let rest: Option<Vec<f64>> = codebook.iter().skip(1).copied().collect();
    let values: Vec<f32> = std::iter::once(first).chain(rest?).map(|v| v as f32).collect();
    let values = <[f32; CODEBOOK]>::try_from(values).ok()?;
    values.iter().all(|v| v.is_finite()).then_some(values)
}

fn linear(min: f64, max: f64) -> Option<[f32; CODEBOOK]> {
    (min.is_finite() && max.is_finite())
        .then(|| std::array::from_fn(|byte| (min + (max - min) * byte as f64 / 255.0) as f32))
}
