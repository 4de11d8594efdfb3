//! Every oracle case of the fixtures, in both precisions, at every vector level.

use std::path::PathBuf;

use gausset_compute::SimdLevel;
use gausset_field::{Compute, CovarianceKind, Evaluator, GaussianField, Real, WeightMode, reference};
use gausset_testkit::{Tensor, fixtures_dir};
use safetensors::SafeTensors;

/// Files of the folder that contain a tensor `values`.
fn cases() -> Vec<(String, Case)> {
    let folder = fixtures_dir().join("field");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let cases: Vec<(String, Case)> = files
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .filter_map(|path| {
            let case = Case::read(&std::fs::read(path).unwrap());
            case.has("values").then(|| (path.file_stem().unwrap().to_string_lossy().into_owned(), case))
        })
        .collect();
    assert!(!cases.is_empty(), "{}: no case with a tensor `values`", folder.display());
    cases
}

struct Case {
    tensors: std::collections::BTreeMap<String, Tensor>,
    metadata: std::collections::HashMap<String, String>,
}

impl Case {
    fn read(bytes: &[u8]) -> Self {
        let (_, metadata) = SafeTensors::read_metadata(bytes).unwrap();
        let tensors = SafeTensors::deserialize(bytes).unwrap();
        let tensors = tensors.tensors().into_iter().map(|(name, view)| {
            let values: Vec<f64> = match view.dtype() {
                safetensors::Dtype::F64 => {
                    view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
                }
                safetensors::Dtype::F32 => {
                    view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
                }
                other => panic!("{name}: type {other:?}"),
            };
            (name, Tensor::new(view.shape(), &values))
        });
        Self { tensors: tensors.collect(), metadata: metadata.metadata().clone().unwrap_or_default() }
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    fn rows<T: Real, const N: usize>(&self, name: &str) -> Vec<[T; N]> {
        self.tensors[name].to_rows::<N>().iter().map(|row| row.map(T::from_f64)).collect()
    }

    fn list<T: Real>(&self, name: &str) -> Vec<T> {
        self.tensors[name].values.iter().map(|v| T::from_f64(*v)).collect()
    }

    fn field<T: Real>(&self) -> GaussianField<T> {
        let word = |key: &str| self.metadata.get(key).unwrap_or_else(|| panic!("metadata `{key}`"));
        GaussianField::new(
            self.rows("means"),
            self.rows("chol"),
            self.list("weights"),
            WeightMode::from_name(word("weight_mode")).unwrap(),
            CovarianceKind::from_name(word("cov")).unwrap(),
        )
        .unwrap()
    }
}

fn compare(place: &str, found: impl IntoIterator<Item = f64>, expected: &[f64], tolerance: f64) {
    let found: Vec<f64> = found.into_iter().collect();
    assert_eq!(found.len(), expected.len(), "{place}: length");
    assert!(found.iter().all(|v| v.is_finite()), "{place}: not finite");
    let largest = expected.iter().fold(0.0f64, |a, v| a.max(v.abs()));
    let error = found.iter().zip(expected).fold(0.0f64, |a, (f, e)| a.max((f - e).abs()));
    assert!(error <= tolerance * largest, "{place}: error {:e} (tolerance {tolerance:e})", error / largest);
}

fn wide<T: Real, const N: usize>(rows: &[[T; N]]) -> Vec<f64> {
    rows.as_flattened().iter().map(|v| (*v).into()).collect()
}

fn wide1<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| (*v).into()).collect()
}

/// The kernels of one precision against a case. Tolerances: values, first derivatives, second derivatives.
fn check_kernels<T: Real>(name: &str, case: &Case, tolerances: [f64; 3]) {
    let [tol0, tol1, tol2] = tolerances;
    let field = case.field::<T>();
    let points = case.rows::<T, 3>("points");
    let (gbar, ubar) = (case.list::<T>("gbar"), case.rows::<T, 3>("ubar"));
    let expected = |tensor: &str| &case.tensors[tensor].values;
    let mut first: Option<Vec<Vec<u64>>> = None;
    for level in SimdLevel::ALL {
        for threads in [1, 3] {
            let Some(compute) = Compute::new(threads, level) else { continue };
            let place = |what: &str| format!("{name}: {what}, {}, {}", T::NAME, level.level_name());
            let evaluator = Evaluator::new(&compute, &field).unwrap();
            let values = evaluator.values(&points).unwrap();
            let derivatives = evaluator.hessians(&points).unwrap();
            let gradients = evaluator.gradients(&points).unwrap();
            let vjp = evaluator.vjp(&points, &gbar).unwrap();
            let vjpg = evaluator.vjp_of_gradient(&points, &ubar).unwrap();
            let hessians: Vec<f64> =
                derivatives.hessians.iter().flatten().flatten().map(|v| (*v).into()).collect();
            let outputs = [
                ("values", wide1(&values), tol0),
                ("values", wide1(&gradients.values), tol0),
                ("values", wide1(&derivatives.values), tol0),
                ("grad_x", wide(&gradients.gradients), tol1),
                ("grad_x", wide(&derivatives.gradients), tol1),
                ("hess_x", hessians, tol2),
                ("vjp_means", wide(&vjp.means), tol1),
                ("vjp_chol", wide(&vjp.chol), tol1),
                ("vjp_weights", wide1(&vjp.weights), tol1),
                ("vjpg_means", wide(&vjpg.means), tol2),
                ("vjpg_chol", wide(&vjpg.chol), tol2),
                ("vjpg_weights", wide1(&vjpg.weights), tol2),
            ];
            for (tensor, found, tolerance) in &outputs {
                compare(&place(tensor), found.iter().copied(), expected(tensor), *tolerance);
            }
            let bits: Vec<Vec<u64>> =
                outputs.iter().map(|(_, found, _)| found.iter().map(|v| v.to_bits()).collect()).collect();
            match &first {
                None => first = Some(bits),
                Some(first) => assert!(first == &bits, "{}: other bytes", place("all")),
            }
        }
    }
}

#[test]
fn fixtures() {
    for (name, case) in cases() {
        check_reference(&name, &case);
        check_kernels::<f64>(&name, &case, [1e-12; 3]);
        check_kernels::<f32>(&name, &case, [1e-6, 2e-6, 5e-6]);
    }
}

/// The reference implementation itself.
fn check_reference(name: &str, case: &Case) {
    let field = case.field::<f64>();
    let points = case.rows::<f64, 3>("points");
    let (gbar, ubar) = (case.list::<f64>("gbar"), case.rows::<f64, 3>("ubar"));
    let check = |tensor: &str, found: Vec<f64>| {
        compare(&format!("{name}: {tensor}, reference"), found, &case.tensors[tensor].values, 1e-12);
    };
    check("values", points.iter().map(|x| reference::value(&field, *x)).collect());
    check("grad_x", points.iter().flat_map(|x| reference::gradient(&field, *x)).collect());
    check("hess_x", points.iter().flat_map(|x| reference::hessian(&field, *x)).flatten().collect());
    let vjp = reference::vjp(&field, &points, &gbar);
    check("vjp_means", wide(&vjp.means));
    check("vjp_chol", wide(&vjp.chol));
    check("vjp_weights", vjp.weights);
    let vjpg = reference::vjp_of_gradient(&field, &points, &ubar);
    check("vjpg_means", wide(&vjpg.means));
    check("vjpg_chol", wide(&vjpg.chol));
    check("vjpg_weights", vjpg.weights);
}
