//! The comparison of poses against numpy, which fits by singular value decomposition as in Umeyama's paper.

use std::io::Write;
use std::process::{Command, Stdio};

use gausset_core::{Pose, se3};
use gausset_sfm::compare::compare;
use gausset_testkit::skip_for_tool;
use serde_json::{Value, json};

const NUMPY: &str = r#"
import json, sys
import numpy as np
given = json.load(sys.stdin)
A = [np.array(p) for p in given["first"]]
B = [np.array(p) for p in given["reference"]]
centre = lambda p: -p[:, :3].T @ p[:, 3]
x = np.array([centre(p) for p in A]).T
y = np.array([centre(p) for p in B]).T
mx, my = x.mean(1, keepdims=True), y.mean(1, keepdims=True)
n = x.shape[1]
u, d, vt = np.linalg.svd((y - my) @ (x - mx).T / n)
s = np.diag([1, 1, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
r = u @ s @ vt
c = np.trace(np.diag(d) @ s) / ((x - mx) ** 2).sum() * n
t = my - c * r @ mx
centres = np.linalg.norm(c * r @ x + t - y, axis=0)
def angle(m):
    k = np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])
    return np.degrees(np.arctan2(np.linalg.norm(k), np.trace(m) - 1))
angles = np.array([angle(a[:, :3] @ r.T @ b[:, :3].T) for a, b in zip(A, B)])
out = lambda e: [e.mean(), np.median(e), e.max()]
json.dump({"scale": c, "rotation": r.tolist(), "translation": t[:, 0].tolist(), "centre": out(centres), "angle": out(angles)}, sys.stdout)
"#;

/// Reproducible pseudo-random numbers from -1 to 1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn three(&mut self, size: f64) -> [f64; 3] {
        [(); 3].map(|()| size * self.next())
    }
}

fn rows(pose: &Pose) -> Value {
    let row = |i: usize| {
        let r = pose.rotation[i];
        json!([r[0], r[1], r[2], pose.translation[i]])
    };
    json!([row(0), row(1), row(2)])
}

/// Result of numpy; `None` if it is not available.
fn numpy(pairs: &[(Pose, Pose)]) -> Option<Value> {
    let python = std::env::var_os("GAUSSET_PYTHON")?;
    let mut child = Command::new(python)
        .args(["-I", "-c", NUMPY])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let first: Vec<Value> = pairs.iter().map(|p| rows(&p.0)).collect();
    let reference: Vec<Value> = pairs.iter().map(|p| rows(&p.1)).collect();
    let given = json!({ "first": first, "reference": reference }).to_string();
    child.stdin.take()?.write_all(given.as_bytes()).ok()?;
    serde_json::from_slice(&child.wait_with_output().ok()?.stdout).ok()
}

#[test]
fn fit_and_errors_are_those_of_numpy() {
    let mut noise = Noise(7);
    for (count, size, error) in [(3, 1.0, 0.01), (8, 100.0, 0.5), (40, 1e-3, 1e-5), (200, 1e4, 300.0)] {
        let turn = se3::so3_exp(noise.three(2.0));
        let pairs: Vec<(Pose, Pose)> = (0..count)
            .map(|_| {
                let rotation = se3::so3_exp(noise.three(2.0));
                let (centre, off) = (noise.three(size), noise.three(error));
                let moved = se3::mul_vec(&turn, centre);
                let reference: [f64; 3] = std::array::from_fn(|k| 3.7 * moved[k] + off[k] + 5.0 * size);
                let own =
                    se3::mul(&se3::so3_exp(noise.three(0.02)), &se3::mul(&rotation, &se3::transpose(&turn)));
                let at = |rotation, centre| {
                    let back = se3::mul_vec(&rotation, centre);
                    Pose { rotation, translation: back.map(|v| -v) }
                };
                (at(rotation, centre), at(own, reference))
            })
            .collect();
        let Some(truth) = numpy(&pairs) else {
            return skip_for_tool("sfm: poses compared by numpy", "no numpy in $GAUSSET_PYTHON");
        };
        let found = compare(&pairs, &[]).expect("a comparison");
        assert!(found.errors.iter().all(|e| e.is_fitted) && !found.is_collinear);
        let near = |name: &str, a: f64, b: &Value, unit: f64| {
            let b = b.as_f64().expect("a number");
            assert!((a - b).abs() <= 1e-9 * unit.max(b.abs()), "{count} poses, {name}: {a}, numpy {b}");
        };
        near("scale", found.fit.scale, &truth["scale"], 1.0);
        for i in 0..3 {
            near("translation", found.fit.translation[i], &truth["translation"][i], size);
            for j in 0..3 {
                near("rotation", found.fit.rotation[i][j], &truth["rotation"][i][j], 1.0);
            }
        }
        for (name, spread, unit) in [("centre", found.centre, size), ("angle", found.rotation, 1.0)] {
            for (k, value) in [spread.mean, spread.median, spread.worst].into_iter().enumerate() {
                near(name, value, &truth[name][k], unit);
            }
        }
    }
}
