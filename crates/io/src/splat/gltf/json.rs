//! The JSON of a glTF file, as far as splats need it.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::collections::BTreeMap;

use gausset_core::se3;
use gausset_core::splats_transform::Similarity;
use serde::Deserialize;

use super::EXTENSION;
use super::spz::is_spz_extension;

/// Deepest nesting of nodes.
const MAX_DEPTH: usize = 64;
/// Largest scale of a node, and the reciprocal of the smallest.
const MAX_SCALE: f64 = 1e6;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct GltfRoot {
    pub(super) asset: Asset,
    pub(super) extensions_required: Vec<String>,
    scene: Option<usize>,
    scenes: Vec<GltfScene>,
    nodes: Vec<Node>,
    pub(super) meshes: Vec<Mesh>,
    pub(super) accessors: Vec<Accessor>,
    pub(super) buffer_views: Vec<BufferView>,
    pub(super) buffers: Vec<Buffer>,
}

/// Generator of the file and its additional data.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asset {
    pub(super) extras: serde_json::Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GltfScene {
    nodes: Vec<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    mesh: Option<usize>,
    children: Vec<usize>,
    matrix: Option<Box<[f64; 16]>>,
    translation: Option<[f64; 3]>,
    rotation: Option<[f64; 4]>,
    scale: Option<[f64; 3]>,
}

#[derive(Deserialize)]
pub(super) struct Mesh {
    pub(super) primitives: Vec<Primitive>,
}

#[derive(Deserialize)]
pub(super) struct Primitive {
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, usize>,
    #[serde(default)]
    pub(super) extensions: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Accessor {
    pub(super) buffer_view: Option<usize>,
    #[serde(default)]
    pub(super) byte_offset: u64,
    pub(super) component_type: u32,
    pub(super) count: u64,
    #[serde(rename = "type")]
    pub(super) shape: String,
    #[serde(default)]
    pub(super) normalized: bool,
    pub(super) sparse: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BufferView {
    pub(super) buffer: usize,
    #[serde(default)]
    pub(super) byte_offset: u64,
    pub(super) byte_length: u64,
    pub(super) byte_stride: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Buffer {
    pub(super) byte_length: u64,
    pub(super) uri: Option<String>,
}

/// Names of the extension and of its drafts.
const EXTENSION_NAMES: [&str; 3] = [EXTENSION, "CESIUM_gaussian_splatting", "CESIUM_gaussian_splats"];

/// Whether this is the extension or one of its drafts.
pub(super) fn is_splat_extension(name: &str) -> bool {
    EXTENSION_NAMES.contains(&name)
}

impl Mesh {
    fn has_splats(&self) -> bool {
        let names = self.primitives.iter().flat_map(|primitive| primitive.extensions.keys());
        names.into_iter().any(|name| is_splat_extension(name) || is_spz_extension(name))
    }
}

impl Primitive {
    /// Properties of the extension or of one of its drafts.
    pub(super) fn splat_extension(&self) -> Option<&serde_json::Value> {
        EXTENSION_NAMES.iter().find_map(|name| self.extensions.get(*name))
    }
}

/// A mesh with its transform in the scene.
pub(super) struct PlacedMesh {
    pub(super) mesh: usize,
    pub(super) transform: Similarity,
}

impl GltfRoot {
    /// The meshes of the scene with their transforms. The error holds position, expected and found content.
    pub(super) fn placed_meshes(&self) -> Result<Vec<PlacedMesh>, [String; 3]> {
        let roots = match self.scenes.get(self.scene.unwrap_or(0)) {
            Some(scene) => scene.nodes.clone(),
            None if self.nodes.is_empty() => {
                // A library of meshes without a scene.
                let all =
                    (0..self.meshes.len()).map(|mesh| PlacedMesh { mesh, transform: Similarity::IDENTITY });
                return Ok(all.collect());
            }
            None => {
                let is_child = |node: &usize| self.nodes.iter().any(|other| other.children.contains(node));
                // Without a scene, every root node is shown. The search is quadratic, but real files have few nodes.
                (0..self.nodes.len().min(1 << 10)).filter(|node| !is_child(node)).collect()
            }
        };
        let mut placed = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        // Nodes without splats may have transforms that splats cannot have.
        let mut waiting: Vec<(usize, Option<Similarity>, usize)> =
            roots.into_iter().rev().map(|node| (node, Some(Similarity::IDENTITY), 0)).collect();
        while let Some((index, above, depth)) = waiting.pop() {
            let place = format!("nodes[{index}]");
            let (Some(node), Some(seen)) = (self.nodes.get(index), seen.get_mut(index)) else {
                return Err([
                    place,
                    format!("a node below {}", self.nodes.len()),
                    "none of this number".to_owned(),
                ]);
            };
            if std::mem::replace(seen, true) || depth > MAX_DEPTH {
                return Err([
                    place,
                    "a tree of nodes at most 64 deep".to_owned(),
                    "a node twice, or deeper".to_owned(),
                ]);
            }
            let transform = above.zip(node.transform()).map(|(above, own)| compose(&above, &own));
            if let Some(mesh) = node.mesh.filter(|&mesh| self.meshes.get(mesh).is_none_or(Mesh::has_splats)) {
                let Some(transform) = transform else {
                    let expected = "a rotation, a shift and one positive scale".to_owned();
                    return Err([place, expected, "another transform".to_owned()]);
                };
                if !is_valid_transform(&transform) {
                    return Err([place, "scales of 1e-6..1e6 in all".to_owned(), "others".to_owned()]);
                }
                placed.push(PlacedMesh { mesh, transform });
            }
            waiting.extend(node.children.iter().rev().map(|&child| (child, transform, depth + 1)));
        }
        Ok(placed)
    }
}

impl Node {
    /// Transform relative to the parent; `None` if it is not a similarity.
    fn transform(&self) -> Option<Similarity> {
        if let Some(m) = self.matrix.as_deref() {
            // Column-major.
            let [a, b, c, _, d, e, f, _, g, h, i, _, x, y, z, _] = *m;
            let columns = [[a, b, c], [d, e, f], [g, h, i]];
            let scale = se3::norm([a, b, c]);
            let rotation = se3::transpose(&columns).map(|row| row.map(|v| v / scale));
            let is_rotation =
                se3::orthonormality_error(&rotation) < 1e-4 && se3::determinant(&rotation) > 0.0;
            return is_rotation.then(|| Similarity {
                scale,
                rotation: snap_to_identity(rotation),
                translation: [x, y, z],
            });
        }
        let [x, y, z, w] = self.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0]);
        let scales = self.scale.unwrap_or([1.0; 3]);
        let [scale, b, c] = scales.map(f64::abs);
        let is_uniform = (scale - b).abs() <= 1e-4 * scale && (scale - c).abs() <= 1e-4 * scale;
        let length = w * w + x * x + y * y + z * z;
        // Two negative scales are a half turn, one or three a mirror.
        let [sx, sy, sz] = scales.map(f64::signum);
        let is_mirrored = sx * sy * sz < 0.0;
        let rotation = se3::rotation_from_quaternion([w, x, y, z]).map(|[a, b, c]| [sx * a, sy * b, sz * c]);
        let translation = self.translation.unwrap_or([0.0; 3]);
        let similarity = Similarity { scale, rotation: snap_to_identity(rotation), translation };
        (is_uniform && !is_mirrored && (0.5..2.0).contains(&length) && scale > 0.0).then_some(similarity)
    }
}

/// Snaps a rotation that is the identity except for rounding.
fn snap_to_identity(rotation: se3::Mat3) -> se3::Mat3 {
    let near =
        rotation.as_flattened().iter().zip(se3::IDENTITY3.as_flattened()).all(|(a, b)| (a - b).abs() < 1e-9);
    if near { se3::IDENTITY3 } else { rotation }
}

fn compose(outer: &Similarity, inner: &Similarity) -> Similarity {
    Similarity {
        scale: outer.scale * inner.scale,
        rotation: se3::mul(&outer.rotation, &inner.rotation),
        translation: outer.apply(inner.translation),
    }
}

fn is_valid_transform(transform: &Similarity) -> bool {
    (1.0 / MAX_SCALE..=MAX_SCALE).contains(&transform.scale)
        && transform.translation.iter().all(|v| v.abs() <= 1e12)
        && transform.rotation.as_flattened().iter().all(|v| v.is_finite())
}
