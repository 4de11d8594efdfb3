//! Public evaluation of a field and its VJPs.
//!
//! [`Evaluator`] holds a field packed for the kernels. Its stages have the names under which another device would
//! implement them: `pack` (raw parameters → records), `forward` (values, gradients, Hessians), `backward` (moments) and
//! `unpack` (moments → gradients by raw parameters). No call allocates a B x N matrix.

use std::any::Any;
use std::sync::{Arc, Mutex};

use fearless_simd::Level;
use gausset_compute::{Exec, Pool, SimdLevel, at_level};

use crate::dense::{self, DerivativeOrder};
use crate::dense_vjp::{self, PHASE_POINTS};
use crate::error::FieldError;
use crate::field::GaussianField;
use crate::gradients::{FieldGradients, block_from_moments};
use crate::packed::{BLOCK, FIELDS, PackedField, PointRows, record_index};
use crate::real::{INV_K2, K, Real};

/// Threads and SIMD level of the CPU. The result does not depend on either.
#[derive(Debug)]
pub struct Compute {
    /// Threads that share the points.
    pub pool: Arc<Pool>,
    /// SIMD level of the kernels.
    pub level: Level,
    spare: BufferPool,
}

/// Memory of dropped evaluators for reuse: a training loop packs other parameters at each step, and allocating memory
/// costs more than packing.
#[derive(Debug, Default)]
struct BufferPool(Mutex<Vec<Box<dyn Any + Send>>>);

impl BufferPool {
    /// Largest number of buffers that are kept.
    const MOST: usize = 4;

    fn take<P: Any + Default>(&self) -> P {
        let Ok(mut pieces) = self.0.lock() else { return P::default() };
        let Some(at) = pieces.iter().position(|piece| piece.is::<P>()) else { return P::default() };
        pieces.swap_remove(at).downcast().map_or_else(|_| P::default(), |piece| *piece)
    }

    fn put<P: Any + Send>(&self, piece: P) {
        if let Ok(mut pieces) = self.0.lock()
            && pieces.len() < Self::MOST
        {
            pieces.push(Box::new(piece));
        }
    }
}

impl Compute {
    /// This many threads (0 = all CPUs) at a SIMD level; `None` if this CPU does not support it.
    #[must_use]
    pub fn new(threads: usize, level: SimdLevel) -> Option<Self> {
        let level = gausset_compute::dispatch_level(level)?;
        let pool = if threads == 0 { Pool::with_all_cores() } else { Pool::new(threads) };
        Some(Self { level, ..Self::with_pool(Arc::new(pool)) })
    }

    /// All CPUs, the best SIMD level.
    #[must_use]
    pub fn best() -> Self {
        Self::with_pool(Arc::new(Pool::with_all_cores()))
    }

    /// Threads that have other work too, the best SIMD level.
    #[must_use]
    pub fn with_pool(pool: Arc<Pool>) -> Self {
        Self { pool, level: Level::new(), spare: BufferPool::default() }
    }

    /// Threads and level, for functions that do not reuse memory.
    pub(crate) fn exec(&self) -> Exec<'_> {
        Exec { pool: &self.pool, level: self.level }
    }
}

/// Value and spatial derivatives at points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldDerivatives<T> {
    /// f, one per point.
    pub values: Vec<T>,
    /// ∇f, value units per length.
    pub gradients: Vec<[T; 3]>,
    /// ∇∇f (symmetric); empty unless requested.
    pub hessians: Vec<[[T; 3]; 3]>,
}

/// A field prepared for evaluation.
#[derive(Clone, Debug)]
pub struct Evaluator<'a, T: Real> {
    compute: &'a Compute,
    field: &'a GaussianField<T>,
    packed: PackedField<T>,
}

impl<T: Real> Drop for Evaluator<'_, T> {
    fn drop(&mut self) {
        self.compute.spare.put(std::mem::take(&mut self.packed));
    }
}

impl<'a, T: Real> Evaluator<'a, T> {
    /// Prepares a field.
    ///
    /// # Errors
    /// As [`GaussianField::check`].
    pub fn new(compute: &'a Compute, field: &'a GaussianField<T>) -> Result<Self, FieldError> {
        field.check_shape()?;
        let mut packed: PackedField<T> = compute.spare.take();
        packed.repack(compute.exec(), field);
        // The inverse factors are already computed; checking them is cheaper than computing them again.
        if packed.is_usable {
            return Ok(Self { compute, field, packed });
        }
        Err(field.check().err().unwrap_or(FieldError::Singular { index: 0, precision: T::NAME }))
    }

    /// f at points.
    ///
    /// # Errors
    /// A point is not finite or too far from the origin.
    pub fn values(&self, points: &[[T; 3]]) -> Result<Vec<T>, FieldError> {
        let mut rows = self.forward(points, DerivativeOrder::Value)?;
        let mut values = rows.swap_remove(0);
        values.truncate(points.len());
        Ok(values)
    }

    /// f and ∇f at points, in one pass.
    ///
    /// # Errors
    /// A point is not finite or too far from the origin.
    pub fn gradients(&self, points: &[[T; 3]]) -> Result<FieldDerivatives<T>, FieldError> {
        self.derivatives(points, DerivativeOrder::Gradient)
    }

    /// f, ∇f and the Hessian at points, in one pass.
    ///
    /// # Errors
    /// A point is not finite or too far from the origin.
    pub fn hessians(&self, points: &[[T; 3]]) -> Result<FieldDerivatives<T>, FieldError> {
        self.derivatives(points, DerivativeOrder::Hessian)
    }

    /// The gradient of `Σ_b gbar_b f(x_b)` by the raw parameters.
    ///
    /// ```
    /// use gausset_field::{Compute, CovarianceKind, Evaluator, GaussianField, WeightMode};
    ///
    /// let (means, chol) = (vec![[0.0f64; 3]], vec![[0.0; 6]]);
    /// let field = GaussianField::new(means, chol, vec![2.0], WeightMode::Raw, CovarianceKind::Full)?;
    /// let compute = Compute::best();
    /// // The derivative of a value by the weight is the Gaussian itself.
    /// let gradient = Evaluator::new(&compute, &field)?.vjp(&[[1.0, 0.0, 0.0]], &[1.0])?;
    /// assert!((gradient.weights[0] - (-0.5f64).exp()).abs() < 1e-9);
    /// # Ok::<(), gausset_field::FieldError>(())
    /// ```
    ///
    /// # Errors
    /// A point is not finite or too far from the origin; there is not one cotangent per point.
    pub fn vjp(&self, points: &[[T; 3]], gbar: &[T]) -> Result<FieldGradients<T>, FieldError> {
        let mut out = FieldGradients::zeros(0);
        self.vjp_into(points, gbar, &mut out)?;
        Ok(out)
    }

    /// As [`Self::vjp`], with reused output memory; for loops.
    ///
    /// # Errors
    /// As [`Self::vjp`].
    pub fn vjp_into(
        &self,
        points: &[[T; 3]],
        gbar: &[T],
        out: &mut FieldGradients<T>,
    ) -> Result<(), FieldError> {
        self.check(points, gbar.len())?;
        let mut samples: Vec<[T; 4]> = Vec::with_capacity(points.len().next_multiple_of(PHASE_POINTS));
        samples.extend(points.iter().zip(gbar).map(|(x, g)| [x[0], x[1], x[2], *g]));
        if let Some(&[x, y, z, _]) = samples.last() {
            // Padding: points with a cotangent of 0.
            samples.resize(points.len().next_multiple_of(PHASE_POINTS), [x, y, z, T::ZERO]);
        }
        let exec = self.compute.exec();
        dense_vjp::moments(exec, &self.packed, &samples, out, &|b, moments| {
            let (block, slopes) = (&self.packed.blocks[b], self.slopes(b));
            at_level!(exec.level, simd => block_from_moments(simd, block, &slopes, moments))
        });
        Ok(())
    }

    /// The gradient of `Σ_b ubar_b · ∇f(x_b)` by the raw parameters: for losses on the gradient of the field.
    ///
    /// # Errors
    /// As [`Self::vjp`].
    pub fn vjp_of_gradient(
        &self,
        points: &[[T; 3]],
        ubar: &[[T; 3]],
    ) -> Result<FieldGradients<T>, FieldError> {
        self.check(points, ubar.len())?;
        let samples: Vec<[T; 6]> =
            points.iter().zip(ubar).map(|(x, u)| [x[0], x[1], x[2], u[0], u[1], u[2]]).collect();
        let exec = self.compute.exec();
        let mut out = FieldGradients::zeros(0);
        dense_vjp::gradient_sums(exec, &self.packed, &samples, &mut out, &|b, sums| {
            let (block, slopes) = (&self.packed.blocks[b], self.slopes(b));
            let mut out = [[0.0; BLOCK]; 10];
            for lane in 0..BLOCK {
                let a: [f64; FIELDS] = std::array::from_fn(|k| block[k][lane].into());
                // `c` and `r` carry k², `p tᵀ` and `c vᵀ` k³; L_kk = k / a_kk.
                let (w2, w3) = (a[record_index::WEIGHT] * INV_K2, a[record_index::WEIGHT] * INV_K2 / K);
                for k in 0..record_index::A00 {
                    out[k][lane] = w2 * sums[k][lane];
                }
                for k in record_index::A00..record_index::WEIGHT {
                    let length = if matches!(k, record_index::A00 | record_index::A11 | record_index::A22) {
                        K / a[k]
                    } else {
                        1.0
                    };
                    out[k][lane] = w3 * sums[k][lane] * length;
                }
                out[record_index::WEIGHT][lane] = -slopes[lane] * sums[record_index::WEIGHT][lane];
            }
            out
        });
        Ok(out)
    }

    /// Derivatives of the weights of a block by their raw values.
    fn slopes(&self, block: usize) -> [f64; BLOCK] {
        let mut out = [1.0; BLOCK];
        for (to, raw) in out.iter_mut().zip(&self.field.weights[block * BLOCK..]) {
            *to = self.field.weight_mode.derivative((*raw).into());
        }
        out
    }

    fn check(&self, points: &[[T; 3]], cotangents: usize) -> Result<(), FieldError> {
        GaussianField::check_points(points)?;
        if points.len() != cotangents {
            return Err(FieldError::Cotangents { expected: points.len(), found: cotangents });
        }
        Ok(())
    }

    fn forward(&self, points: &[[T; 3]], order: DerivativeOrder) -> Result<Vec<Vec<T>>, FieldError> {
        GaussianField::check_points(points)?;
        let rows = PointRows::new(points);
        Ok(dense::forward(self.compute.exec(), &self.packed.terms, &rows, order))
    }

    fn derivatives(
        &self,
        points: &[[T; 3]],
        order: DerivativeOrder,
    ) -> Result<FieldDerivatives<T>, FieldError> {
        let rows = self.forward(points, order)?;
        let n = points.len();
        let gradients = (0..n).map(|b| [rows[1][b], rows[2][b], rows[3][b]]).collect();
        let hessian = |b: usize| {
            let [xx, yx, yy, zx, zy, zz] = [4, 5, 6, 7, 8, 9].map(|row: usize| rows[row][b]);
            [[xx, yx, zx], [yx, yy, zy], [zx, zy, zz]]
        };
        let hessians =
            if order == DerivativeOrder::Hessian { (0..n).map(hessian).collect() } else { Vec::new() };
        Ok(FieldDerivatives { values: rows[0][..n].to_vec(), gradients, hessians })
    }
}
