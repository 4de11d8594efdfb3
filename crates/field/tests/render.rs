//! Grids, projections, line integrals and inner products of single Gaussians, against closed forms and sums that are
//! computed here from the covariance (the library uses its factor).

use gausset_compute::SimdLevel;
use gausset_field::render::{Lattice, integrals, line_integral, maximum_projection, other_axes, voxelize};
use gausset_field::{Compute, CovarianceKind, Cutoff, FieldError, GaussianField, WeightMode};

type Matrix = [[f64; 3]; 3];

const MEAN: [f64; 3] = [1.5, -0.75, 2.25];
const WEIGHT: f64 = -0.8;
const SIGMAS: [f64; 3] = [1.3, 0.5, 0.8];

/// Tolerance of f32 values: a few units in the last place of the weight.
const SINGLE: f64 = 1e-6;

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn times(m: &Matrix, x: [f64; 3]) -> [f64; 3] {
    m.map(|row| dot(row, x))
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn unit(x: [f64; 3]) -> [f64; 3] {
    x.map(|v| v / dot(x, x).sqrt())
}

/// `R diag(σ²) Rᵀ`, with orthonormal columns of R: axis-aligned, or rotated about all axes.
fn covariance(is_turned: bool) -> Matrix {
    let x = if is_turned { unit([2.0, 1.0, -0.7]) } else { [1.0, 0.0, 0.0] };
    let y = if is_turned { unit(cross(x, [0.3, -1.0, 0.9])) } else { [0.0, 1.0, 0.0] };
    let axes = [x, y, cross(x, y)];
    std::array::from_fn(|r| {
        std::array::from_fn(|c| (0..3).map(|k| axes[k][r] * axes[k][c] * SIGMAS[k].powi(2)).sum())
    })
}

fn determinant(s: &Matrix) -> f64 {
    dot(s[0], cross(s[1], s[2]))
}

/// Inverse by cofactors; covariances are symmetric.
fn inverse(s: &Matrix) -> Matrix {
    [cross(s[1], s[2]), cross(s[2], s[0]), cross(s[0], s[1])].map(|row| row.map(|v| v / determinant(s)))
}

/// The Gaussian of a covariance as a field.
fn field(s: &Matrix) -> GaussianField<f64> {
    let l00 = s[0][0].sqrt();
    let (l10, l20) = (s[1][0] / l00, s[2][0] / l00);
    let l11 = (s[1][1] - l10 * l10).sqrt();
    let l21 = (s[2][1] - l20 * l10) / l11;
    let l22 = (s[2][2] - l20 * l20 - l21 * l21).sqrt();
    let chol = vec![[l00.ln(), l10, l11.ln(), l20, l21, l22.ln()]];
    GaussianField::new(vec![MEAN], chol, vec![WEIGHT], WeightMode::Raw, CovarianceKind::Full).unwrap()
}

fn value(s: &Matrix, x: [f64; 3]) -> f64 {
    let d = std::array::from_fn(|k| x[k] - MEAN[k]);
    WEIGHT * (-0.5 * dot(d, times(&inverse(s), d))).exp()
}

/// Projection of a Gaussian along a line: a Gaussian in the perpendicular plane, whose covariance `P` is that of the
/// plane, times the fraction of the width that is along the line.
fn projected(s: &Matrix, origin: [f64; 3], direction: [f64; 3]) -> f64 {
    let d = unit(direction);
    let a = unit(cross(d, if d[0].abs() < 0.7 { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] }));
    let b = cross(d, a);
    let [aa, ab, bb] = [(a, a), (a, b), (b, b)].map(|(u, v)| dot(u, times(s, v)));
    let from_mean = std::array::from_fn(|k| origin[k] - MEAN[k]);
    let (p, q) = (dot(a, from_mean), dot(b, from_mean));
    let area = aa * bb - ab * ab;
    let square = (bb * p * p - 2.0 * ab * p * q + aa * q * q) / area;
    WEIGHT * (std::f64::consts::TAU * determinant(s) / area).sqrt() * (-0.5 * square).exp()
}

fn compute() -> Compute {
    Compute::new(2, SimdLevel::Auto).unwrap()
}

/// Different numbers of points and distances along each axis; the mean is the point (2, 1, 1).
const LATTICE: Lattice = Lattice { origin: [0.5, -1.25, 2.0], spacing: [0.5, 0.5, 0.25], dims: [6, 4, 3] };

#[test]
fn the_integral_along_an_axis_is_the_width_times_the_root_of_two_pi() {
    let field = field(&covariance(false));
    for axis in 0..3 {
        for length in [1.0, -2.5] {
            let mut direction = [0.0; 3];
            direction[axis] = length;
            let full = WEIGHT * std::f64::consts::TAU.sqrt() * SIGMAS[axis];
            let found = line_integral(&field, MEAN, direction);
            assert!((found - full).abs() < 1e-14, "axis {axis}: {found}, not {full}");
            // A line that passes at a distance of two widths from the mean.
            let (u, _) = other_axes(axis);
            let mut origin = MEAN;
            origin[u] += 2.0 * SIGMAS[u];
            origin[axis] += 17.0;
            let found = line_integral(&field, origin, direction);
            assert!((found - full * (-2f64).exp()).abs() < 1e-14, "axis {axis}, beside: {found}");
        }
    }
}

#[test]
fn the_integral_along_any_line_is_that_of_the_projected_gaussian_and_of_a_sum() {
    let s = covariance(true);
    let field = field(&s);
    for i in 0..40 {
        let i = f64::from(i);
        let direction = [(0.7 * i).cos(), (1.1 * i).sin(), (0.3 + 0.5 * i).cos()];
        let origin = [1.5 + (2.0 * i).sin(), (0.9 * i).cos() - 1.0, 2.0 + 0.5 * (3.0 * i).sin()];
        let found = line_integral(&field, origin, direction);
        let closed = projected(&s, origin, direction);
        assert!((found - closed).abs() < 1e-13, "line {i}: {found}, not {closed}");
        // The trapezoidal rule is exact to rounding for Gaussians once steps are well below a width.
        let d = unit(direction);
        let step = 0.1;
        let sum: f64 = (-300..=300)
            .map(|t| value(&s, std::array::from_fn(|k| origin[k] + f64::from(t) * step * d[k])))
            .sum();
        assert!((found - step * sum).abs() < 1e-12, "line {i}: {found}, summed {}", step * sum);
    }
}

#[test]
fn integrals_along_an_axis_are_a_picture_with_the_higher_axis_in_its_rows() {
    let s = covariance(true);
    let field = field(&s);
    for axis in 0..3 {
        let picture = integrals(&compute(), &field, &LATTICE, axis).unwrap();
        let (u, v) = other_axes(axis);
        assert_eq!(picture.len(), LATTICE.dims[u] * LATTICE.dims[v]);
        let mut direction = [0.0; 3];
        direction[axis] = 1.0;
        for (i, found) in picture.iter().enumerate() {
            let mut origin = LATTICE.origin;
            origin[u] += (i % LATTICE.dims[u]) as f64 * LATTICE.spacing[u];
            origin[v] += (i / LATTICE.dims[u]) as f64 * LATTICE.spacing[v];
            let closed = projected(&s, origin, direction);
            assert!(
                (f64::from(*found) - closed).abs() < SINGLE,
                "axis {axis}, pixel {i}: {found}, not {closed}"
            );
        }
    }
}

#[test]
fn a_grid_holds_the_value_at_each_of_its_points_with_x_fastest() {
    for is_turned in [false, true] {
        let s = covariance(is_turned);
        let (values, report) = voxelize(&compute(), &field(&s), &LATTICE, Cutoff::Absolute(0.0)).unwrap();
        assert_eq!((values.len(), report.bound), (6 * 4 * 3, Some(0.0)));
        for k in 0..3 {
            for j in 0..4 {
                for i in 0..6 {
                    let x = [0.5 + 0.5 * i as f64, -1.25 + 0.5 * j as f64, 2.0 + 0.25 * k as f64];
                    let found = f64::from(values[i + 6 * (j + 4 * k)]);
                    assert!(
                        (found - value(&s, x)).abs() < SINGLE,
                        "({i}, {j}, {k}): {found}, not {}",
                        value(&s, x)
                    );
                }
            }
        }
        // The point at the mean.
        assert!((f64::from(values[2 + 6 * (1 + 4)]) - WEIGHT).abs() < SINGLE);
    }
}

#[test]
fn a_plane_of_a_grid_holds_its_points_in_that_plane() {
    let s = covariance(true);
    for axis in 0..3 {
        let (u, v) = other_axes(axis);
        for at in 0..LATTICE.dims[axis] {
            let plane = LATTICE.plane(axis, at);
            let (values, _) = voxelize(&compute(), &field(&s), &plane, Cutoff::Absolute(0.0)).unwrap();
            assert_eq!(values.len(), LATTICE.dims[u] * LATTICE.dims[v]);
            for (i, found) in values.iter().enumerate() {
                let mut x = LATTICE.origin;
                x[axis] += at as f64 * LATTICE.spacing[axis];
                x[u] += (i % LATTICE.dims[u]) as f64 * LATTICE.spacing[u];
                x[v] += (i / LATTICE.dims[u]) as f64 * LATTICE.spacing[v];
                assert!(
                    (f64::from(*found) - value(&s, x)).abs() < SINGLE,
                    "plane {at} of {axis}, pixel {i}: {found}"
                );
            }
        }
    }
}

#[test]
fn the_largest_value_along_an_axis_is_that_of_its_points() {
    let s = covariance(true);
    // Upside down: the Gaussian is negative, and the largest value is the farthest from it.
    let (mut values, _) = voxelize(&compute(), &field(&s), &LATTICE, Cutoff::Absolute(0.0)).unwrap();
    values.iter_mut().for_each(|v| *v = -*v);
    for axis in 0..3 {
        let (u, v) = other_axes(axis);
        let picture = maximum_projection(&values, LATTICE.dims, axis);
        assert_eq!(picture.len(), LATTICE.dims[u] * LATTICE.dims[v]);
        let index = [2, 1, 1];
        let brightest = picture[index[u] + LATTICE.dims[u] * index[v]];
        assert!((f64::from(brightest) + WEIGHT).abs() < SINGLE, "axis {axis}: over the mean {brightest}");
        for (i, found) in picture.iter().enumerate() {
            let along = (0..LATTICE.dims[axis]).map(|t| {
                let mut x = LATTICE.origin;
                x[axis] += t as f64 * LATTICE.spacing[axis];
                x[u] += (i % LATTICE.dims[u]) as f64 * LATTICE.spacing[u];
                x[v] += (i / LATTICE.dims[u]) as f64 * LATTICE.spacing[v];
                -value(&s, x)
            });
            let most = along.fold(f64::NEG_INFINITY, f64::max);
            assert!((f64::from(*found) - most).abs() < SINGLE, "axis {axis}, pixel {i}: {found}, not {most}");
        }
    }
}

#[test]
fn a_grid_that_cannot_be_held_is_refused_before_memory_is_taken() {
    let field = field(&covariance(false));
    let huge = 1usize << 21;
    // 16 TiB of values; more than can be counted; a product that wraps around to 2.
    for dims in [[huge, huge, 1], [999_999_999; 3], [usize::MAX / 2 + 2, 2, 1]] {
        let lattice = Lattice { dims, ..LATTICE };
        let refused = |error: FieldError| {
            assert!(matches!(error, FieldError::Memory { .. }), "{error}");
            let line = error.to_string();
            assert!(line.contains(&format!("found {} x {} x {}", dims[0], dims[1], dims[2])), "{line}");
        };
        refused(voxelize(&compute(), &field, &lattice, Cutoff::Absolute(0.0)).unwrap_err());
        refused(lattice.checked_count(4).unwrap_err());
    }
    let lattice = Lattice { dims: [huge, huge, 5], ..LATTICE };
    assert!(integrals(&compute(), &field, &lattice, 2).is_err());
    assert!(Lattice { dims: [0, usize::MAX, usize::MAX], ..LATTICE }.is_empty());
}

#[test]
fn mass_and_inner_products_are_the_integrals_that_they_stand_for() {
    let (a, b) = (field(&covariance(false)), field(&covariance(true)));
    let volume = SIGMAS.iter().product::<f64>();
    let pi = std::f64::consts::PI;
    // The rotated one, moved and with another weight.
    let mut b = b.gaussian(0);
    b.mean = [0.9, 0.1, 1.8];
    b.weight = 1.7;
    let a = a.gaussian(0);
    assert!((b.mass() - 1.7 * (2.0 * pi).powf(1.5) * volume).abs() < 1e-13);
    assert!((a.inner(&a) - WEIGHT * WEIGHT * pi.powf(1.5) * volume).abs() < 1e-13);
    // The product of the two, summed over a grid: exact to rounding, like the trapezoidal rule along a line.
    let (first, second) = (inverse(&covariance(false)), inverse(&covariance(true)));
    let (step, half) = (0.2, 40);
    let square = |m: &Matrix, x: [f64; 3], mean: [f64; 3]| {
        let d = std::array::from_fn(|k| x[k] - mean[k]);
        dot(d, times(m, d))
    };
    let mut sum = 0.0;
    for i in 0..(2 * half + 1i32).pow(3) {
        let index = [i % 81, i / 81 % 81, i / 6561].map(|n| step * f64::from(n - half));
        let x = std::array::from_fn(|k| MEAN[k] + index[k]);
        sum += (-0.5 * (square(&first, x, a.mean) + square(&second, x, b.mean))).exp();
    }
    let summed = WEIGHT * 1.7 * sum * f64::powi(step, 3);
    assert!((a.inner(&b) - summed).abs() < 1e-11, "{}, summed {summed}", a.inner(&b));
    assert_eq!(a.inner(&b), b.inner(&a));
}
