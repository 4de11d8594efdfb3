//! Essential matrices from five pairs of bearings (Nistér 2004, "An efficient solution to the five-point relative pose
//! problem"), and the poses they allow.
//!
//! `E = [t]× R` with `y_b = R y_a + t`, so that `bᵀ E a = 0`.

use gausset_core::matrix::{Mat3, cross, dot, mul, norm, transpose};

/// A polynomial in x, y, z of degree three or less: coefficients of [`MONOMIALS`].
type Cubic = [f64; 20];

/// Exponents of x, y, z, in Nistér's order: those before `x² z` are eliminated; the last ten are ordered by powers of
/// z.
const MONOMIALS: [[u8; 3]; 20] = [
    [3, 0, 0],
    [0, 3, 0],
    [2, 1, 0],
    [1, 2, 0],
    [2, 0, 1],
    [2, 0, 0],
    [0, 2, 1],
    [0, 2, 0],
    [1, 1, 1],
    [1, 1, 0],
    [1, 0, 2],
    [1, 0, 1],
    [1, 0, 0],
    [0, 1, 2],
    [0, 1, 1],
    [0, 1, 0],
    [0, 0, 3],
    [0, 0, 2],
    [0, 0, 1],
    [0, 0, 0],
];

/// Index of the product of two monomials; 255 if its degree is four or more.
const PRODUCTS: [[u8; 20]; 20] = products();

const fn products() -> [[u8; 20]; 20] {
    let mut table = [[255; 20]; 20];
    let mut i = 0;
    while i < 20 {
        let mut j = 0;
        while j < 20 {
            let mut k = 0;
            while k < 20 {
                let (a, b, c) = (MONOMIALS[i], MONOMIALS[j], MONOMIALS[k]);
                if a[0] + b[0] == c[0] && a[1] + b[1] == c[1] && a[2] + b[2] == c[2] {
                    table[i][j] = k as u8;
                }
                k += 1;
            }
            j += 1;
        }
        i += 1;
    }
    table
}

/// Linear polynomials: coefficients of x, y, z, 1, and their indices in [`MONOMIALS`].
type Linear = [f64; 4];
const LINEAR: [usize; 4] = [12, 15, 18, 19];
/// Quadratic polynomials: coefficients of these [`MONOMIALS`].
type Quadratic = [f64; 10];
const QUADRATIC: [usize; 10] = [5, 7, 9, 11, 12, 14, 15, 17, 18, 19];
/// Where the product of two linear terms is in a [`Quadratic`], and that of a quadratic and a linear term in a
/// [`Cubic`].
const OF_LINEAR: [[u8; 4]; 4] = of_linear();
const OF_QUADRATIC: [[u8; 4]; 10] = of_quadratic();

const fn of_linear() -> [[u8; 4]; 4] {
    let mut table = [[0; 4]; 4];
    let mut at = 0;
    while at < 4 * 4 * 10 {
        let (i, j, k) = (at / 40, at / 10 % 4, at % 10);
        if PRODUCTS[LINEAR[i]][LINEAR[j]] as usize == QUADRATIC[k] {
            table[i][j] = k as u8;
        }
        at += 1;
    }
    table
}

const fn of_quadratic() -> [[u8; 4]; 10] {
    let mut table = [[0; 4]; 10];
    let mut at = 0;
    while at < 4 * 10 {
        let (i, j) = (at / 4, at % 4);
        table[i][j] = PRODUCTS[QUADRATIC[i]][LINEAR[j]];
        at += 1;
    }
    table
}

/// Adds `factor a b`.
fn add_linear(out: &mut Quadratic, a: &Linear, b: &Linear, factor: f64) {
    for (x, places) in a.iter().zip(&OF_LINEAR) {
        for (y, &place) in b.iter().zip(places) {
            out[place as usize] += factor * x * y;
        }
    }
}

/// Adds `a b`.
fn add_quadratic(out: &mut Cubic, a: &Quadratic, b: &Linear) {
    for (x, places) in a.iter().zip(&OF_QUADRATIC) {
        for (y, &place) in b.iter().zip(places) {
            out[place as usize] += x * y;
        }
    }
}

/// Up to ten essential matrices of norm 1 that are consistent with five pairs (a, b) of bearings.
pub(crate) fn five_point(pairs: &[[[f64; 3]; 2]; 5]) -> Vec<Mat3> {
    let Some(space) = null_space(pairs) else { return Vec::new() };
    // E = x X + y Y + z Z + W.
    let entry = |i: usize, j: usize| -> Linear { std::array::from_fn(|m| space[m][3 * i + j]) };
    let e: [[Linear; 3]; 3] = std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)));
    let mut rows = constraints(&e);
    if !eliminate(&mut rows) {
        return Vec::new();
    }
    // Rows 4 to 9 begin with x²z, x², y²z, y², xyz, xy: a row minus z times the next leaves x, y and 1 times
    // polynomials in z.
    let b: [[[f64; 5]; 3]; 3] = std::array::from_fn(|k| subtract_z_times(&rows[4 + 2 * k], &rows[5 + 2 * k]));
    let determinant = determinant(&b);
    let mut found = Vec::new();
    for z in real_roots(&determinant) {
        let at: Mat3 = b.map(|row| row.map(|p| p.iter().rev().fold(0.0, |value, c| value * z + c)));
        // The null vector of B(z): the longest cross product of two rows.
        let candidates = [cross(at[0], at[1]), cross(at[1], at[2]), cross(at[2], at[0])];
        let best = candidates.into_iter().fold([0.0; 3], |a, b| if norm(b) > norm(a) { b } else { a });
        if best[2].abs() < 1e-12 * norm(best) || norm(best) == 0.0 {
            continue;
        }
        let (x, y) = (best[0] / best[2], best[1] / best[2]);
        let value = |k: usize| x * space[0][k] + y * space[1][k] + z * space[2][k] + space[3][k];
        let length = libm::sqrt((0..9).map(|k| value(k) * value(k)).sum::<f64>());
        let matrix: Mat3 = std::array::from_fn(|i| std::array::from_fn(|j| value(3 * i + j) / length));
        if matrix.iter().flatten().all(|v| v.is_finite()) {
            found.push(matrix);
        }
    }
    found
}

/// Four matrices that span the null space of the pairs' equations (the rest of an orthonormal basis of nine
/// dimensions).
fn null_space(pairs: &[[[f64; 3]; 2]; 5]) -> Option<[[f64; 9]; 4]> {
    let mut basis: Vec<[f64; 9]> = Vec::with_capacity(9);
    let row = |[a, b]: &[[f64; 3]; 2]| -> [f64; 9] { std::array::from_fn(|k| b[k / 3] * a[k % 3]) };
    let unit = |at: usize| -> [f64; 9] { std::array::from_fn(|k| f64::from(u8::from(k == at))) };
    let against = |vector: &mut [f64; 9], basis: &[[f64; 9]]| {
        // Orthogonalising twice is enough (Giraud et al. 2005).
        for _ in 0..2 {
            for other in basis {
                let along: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
            }
        }
        libm::sqrt(vector.iter().map(|v| v * v).sum())
    };
    for pair in pairs {
        let mut vector = row(pair);
        let length = against(&mut vector, &basis);
        if length < 1e-9 {
            return None;
        }
        basis.push(vector.map(|v| v / length));
    }
    while basis.len() < 9 {
        // The axis with the smallest component in the basis so far.
        let inside = |at: usize| basis.iter().map(|b| b[at] * b[at]).sum::<f64>();
        let axis = (1..9).fold(0, |best, at| if inside(at) < inside(best) { at } else { best });
        let mut vector = unit(axis);
        let length = against(&mut vector, &basis);
        basis.push(vector.map(|v| v / length));
    }
    Some(std::array::from_fn(|k| basis[5 + k]))
}

/// `det E = 0` and `E Eᵀ E - trace(E Eᵀ) E / 2 = 0`.
fn constraints(e: &[[Linear; 3]; 3]) -> [Cubic; 10] {
    let mut rows = [[0.0; 20]; 10];
    for (k, (i, j)) in [(1, 2), (2, 0), (0, 1)].into_iter().enumerate() {
        let mut minor = [0.0; 10];
        add_linear(&mut minor, &e[1][i], &e[2][j], 1.0);
        add_linear(&mut minor, &e[1][j], &e[2][i], -1.0);
        add_quadratic(&mut rows[0], &minor, &e[0][k]);
    }
    // E Eᵀ minus half of its trace.
    let mut squares = [[[0.0; 10]; 3]; 3];
    for i in 0..3 {
        for j in 0..=i {
            for k in 0..3 {
                add_linear(&mut squares[i][j], &e[i][k], &e[j][k], 1.0);
            }
            squares[j][i] = squares[i][j];
        }
    }
    let half: Quadratic =
        std::array::from_fn(|k| 0.5 * (squares[0][0][k] + squares[1][1][k] + squares[2][2][k]));
    for (i, row) in squares.iter_mut().enumerate() {
        row[i].iter_mut().zip(half).for_each(|(v, half)| *v -= half);
    }
    for i in 0..3 {
        for j in 0..3 {
            for k in 0..3 {
                add_quadratic(&mut rows[1 + 3 * i + j], &squares[i][k], &e[k][j]);
            }
        }
    }
    rows
}

/// Gauss-Jordan elimination with partial pivoting; `false` if the rows are dependent.
fn eliminate(rows: &mut [Cubic; 10]) -> bool {
    for column in 0..10 {
        let pivot = (column..10).fold(column, |best, row| {
            if rows[row][column].abs() > rows[best][column].abs() { row } else { best }
        });
        if rows[pivot][column].abs() < 1e-14 {
            return false;
        }
        rows.swap(column, pivot);
        let scale = 1.0 / rows[column][column];
        rows[column].iter_mut().for_each(|v| *v *= scale);
        let own = rows[column];
        for (at, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            // Rows 0 to 3 are not used, so they are not reduced further.
            if at > column || at >= 4 {
                let factor = row[column];
                row.iter_mut().zip(own).for_each(|(v, o)| *v -= factor * o);
            }
        }
    }
    true
}

/// `row - z next`: coefficients in z, lowest first, of x, y and 1.
fn subtract_z_times(row: &Cubic, next: &Cubic) -> [[f64; 5]; 3] {
    let (a, b) = (&row[10..], &next[10..]);
    [
        [a[2], a[1] - b[2], a[0] - b[1], -b[0], 0.0],
        [a[5], a[4] - b[5], a[3] - b[4], -b[3], 0.0],
        [a[9], a[8] - b[9], a[7] - b[8], a[6] - b[7], -b[6]],
    ]
}

/// Determinant of a matrix of polynomials: a polynomial of degree ten.
fn determinant(b: &[[[f64; 5]; 3]; 3]) -> [f64; 11] {
    let mut out = [0.0; 11];
    for (k, (i, j)) in [(1, 2), (2, 0), (0, 1)].into_iter().enumerate() {
        let mut minor = [0.0; 9];
        for m in 0..5 {
            for n in 0..5 {
                minor[m + n] += b[1][i][m] * b[2][j][n] - b[1][j][m] * b[2][i][n];
            }
        }
        for m in 0..5 {
            for n in 0..9 {
                // All terms beyond degree ten are zero.
                if m + n <= 10 {
                    out[m + n] += b[0][k][m] * minor[n];
                }
            }
        }
    }
    out
}

/// Largest degree of a polynomial whose roots are sought.
const MAX_DEGREE: usize = 10;

/// Real roots of a polynomial of at most [`MAX_DEGREE`], lowest coefficient first: between the roots of its derivative,
/// by bisection and Newton steps. Roots of even multiplicity are left out.
fn real_roots(polynomial: &[f64]) -> Vec<f64> {
    let degree = (0..polynomial.len()).rev().find(|&k| polynomial[k] != 0.0).unwrap_or(0);
    if degree == 0 || degree > MAX_DEGREE {
        return Vec::new();
    }
    let top = polynomial[degree];
    // Cauchy's bound of the roots.
    let bound = 1.0 + polynomial[..degree].iter().map(|c| (c / top).abs()).fold(0.0, f64::max);
    if !bound.is_finite() {
        return Vec::new();
    }
    // Row k: the k-th derivative.
    let mut derivatives = [[0.0; MAX_DEGREE + 1]; MAX_DEGREE + 1];
    derivatives[0][..=degree].copy_from_slice(&polynomial[..=degree]);
    for k in 0..degree {
        for power in 1..=degree - k {
            derivatives[k + 1][power - 1] = power as f64 * derivatives[k][power];
        }
    }
    let mut roots: Vec<f64> = Vec::with_capacity(degree + 2);
    let mut places: Vec<f64> = Vec::with_capacity(degree + 2);
    for k in (0..degree).rev() {
        let [p, slope] = [k, k + 1].map(|k| &derivatives[k][..=degree - k]);
        let accuracy = if k == 0 { 1e-14 } else { DERIVATIVE_ACCURACY };
        places.clear();
        places.push(-bound);
        places.append(&mut roots);
        places.push(bound);
        roots.extend(
            places.windows(2).filter_map(|ends| root_between(p, slope, [ends[0], ends[1]], accuracy)),
        );
    }
    roots
}

/// Relative accuracy of the roots of derivatives, which only separate those of the polynomial.
const DERIVATIVE_ACCURACY: f64 = 1e-9;

fn evaluate(p: &[f64], x: f64) -> f64 {
    p.iter().rev().fold(0.0, |value, c| value * x + c)
}

/// The root of a polynomial between two places where it has different signs.
fn root_between(p: &[f64], slope: &[f64], [mut low, mut high]: [f64; 2], accuracy: f64) -> Option<f64> {
    let (at_low, at_high) = (evaluate(p, low), evaluate(p, high));
    if at_low == 0.0 || at_low * at_high >= 0.0 {
        return None;
    }
    let mut x = 0.5 * (low + high);
    for _ in 0..100 {
        let here = evaluate(p, x);
        if here * at_low > 0.0 {
            low = x
        } else {
            high = x
        }
        let newton = x - here / evaluate(slope, x);
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        let is_done = (next - x).abs() <= accuracy * (1.0 + x.abs());
        x = next;
        if is_done {
            break;
        }
    }
    Some(x)
}

/// The four poses (R, t) that an essential matrix allows, t of length 1 (Horn 1990: `|t|² R = cof E - [t]× E`).
pub(crate) fn decompose(e: &Mat3) -> [(Mat3, [f64; 3]); 4] {
    // t is perpendicular to all columns, so their cross products are parallel to it; the longest is the most accurate.
    let columns = transpose(e);
    let products =
        [cross(columns[0], columns[1]), cross(columns[1], columns[2]), cross(columns[2], columns[0])];
    let along = products.into_iter().fold([0.0; 3], |a, b| if norm(b) > norm(a) { b } else { a });
    let length = norm(along).max(1e-300);
    let unit = along.map(|v| v / length);
    // |E|² = 2 |t|² for an exact essential matrix.
    let size = libm::sqrt(0.5 * e.iter().flatten().map(|v| v * v).sum::<f64>()).max(1e-300);
    let scaled: Mat3 = e.map(|row| row.map(|v| v / size));
    let cofactors = [cross(scaled[1], scaled[2]), cross(scaled[2], scaled[0]), cross(scaled[0], scaled[1])];
    let turned = mul(&gausset_core::se3::skew(unit), &scaled);
    let rotation = |sign: f64| {
        let sum: Mat3 =
            std::array::from_fn(|i| std::array::from_fn(|j| cofactors[i][j] - sign * turned[i][j]));
        gausset_core::matrix::orthonormalise(&sum)
    };
    let (one, other) = (rotation(1.0), rotation(-1.0));
    let back = unit.map(|v| -v);
    [(one, unit), (one, back), (other, unit), (other, back)]
}

/// Distances along both bearings to their closest approach, for `y_b = R y_a + t`; `None` if they are parallel.
pub(crate) fn depths(rotation: &Mat3, t: [f64; 3], [a, b]: [[f64; 3]; 2]) -> Option<[f64; 2]> {
    let turned = gausset_core::matrix::mul_vec(rotation, a);
    let across = cross(turned, b);
    let squared = dot(across, across);
    (squared > 1e-16)
        .then(|| [-dot(cross(b, t), cross(b, turned)) / squared, dot(cross(turned, t), across) / squared])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::two_view::tests::{TwoViewScene, angle_between};
    use gausset_core::matrix::mul_vec;

    #[test]
    fn the_true_matrix_is_among_those_of_five_exact_pairs() {
        for seed in 0..200 {
            let scene = TwoViewScene::new(seed, 5, 0.0, 0);
            let pairs: [[[f64; 3]; 2]; 5] = std::array::from_fn(|k| scene.pairs[k]);
            let found = five_point(&pairs);
            for e in &found {
                for [a, b] in pairs {
                    assert!(dot(b, mul_vec(e, a)).abs() < 1e-9, "{seed}");
                }
            }
            let poses = found.iter().flat_map(decompose);
            let best = poses
                .map(|(rotation, t)| angle_between(&rotation, &scene.rotation) + norm(cross(t, scene.t)))
                .fold(f64::INFINITY, f64::min);
            assert!(best < 1e-4, "{seed}: {best}");
        }
    }

    #[test]
    fn all_roots_are_found() {
        let wanted = [-31.0, -2.0, -0.5, 0.1, 0.11, 3.0, 800.0];
        let mut polynomial = vec![1.0];
        for root in wanted {
            let mut next = vec![0.0; polynomial.len() + 1];
            for (k, c) in polynomial.iter().enumerate() {
                next[k + 1] += c;
                next[k] -= root * c;
            }
            polynomial = next;
        }
        let found = real_roots(&polynomial);
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-7 * b.abs().max(1.0)), "{found:?}");
        assert!(real_roots(&[1.0, 0.0, 1.0]).is_empty());
    }

    #[test]
    fn depths_are_those_of_the_point() {
        let scene = TwoViewScene::new(3, 20, 0.0, 0);
        for (pair, point) in scene.pairs.iter().zip(&scene.points) {
            let [near, far] = depths(&scene.rotation, scene.t, *pair).unwrap();
            let moved = mul_vec(&scene.rotation, *point);
            let other: [f64; 3] = std::array::from_fn(|k| moved[k] + scene.t[k]);
            assert!((near - norm(*point)).abs() < 1e-9 && (far - norm(other)).abs() < 1e-9);
        }
    }
}
