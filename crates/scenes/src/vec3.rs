//! Three numbers: a point, a direction or a linear colour.

use std::ops::{Add, AddAssign, Mul, Neg, Sub};

/// A vector of three f64.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vec3 {
    /// First component, or red.
    pub x: f64,
    /// Second component, or green.
    pub y: f64,
    /// Third component, or blue.
    pub z: f64,
}

/// Short form of the constructor.
#[must_use]
pub const fn vec3(x: f64, y: f64, z: f64) -> Vec3 {
    Vec3 { x, y, z }
}

impl Vec3 {
    /// The same value three times.
    #[must_use]
    pub const fn splat(v: f64) -> Self {
        vec3(v, v, v)
    }

    /// The scalar product `self · other`.
    #[must_use]
    pub fn dot(self, other: Self) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// The vector product `self × other`.
    #[must_use]
    pub fn cross(self, other: Self) -> Self {
        vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )
    }

    /// The Euclidean length, 0 or more.
    #[must_use]
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The vector at length 1; it must not be zero.
    #[must_use]
    pub fn normalised(self) -> Self {
        self * (1.0 / self.length())
    }

    /// Component-wise product: light times reflectance.
    #[must_use]
    pub fn mul_components(self, other: Self) -> Self {
        vec3(self.x * other.x, self.y * other.y, self.z * other.z)
    }

    /// The function applied to each component.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        vec3(f(self.x), f(self.y), f(self.z))
    }

    /// `self` at `t = 0`, `other` at `t = 1`.
    #[must_use]
    pub fn lerp(self, other: Self, t: f64) -> Self {
        self + (other - self) * t
    }

    /// As an array.
    #[must_use]
    pub const fn array(self) -> [f64; 3] {
        [self.x, self.y, self.z]
    }
}

impl From<[f64; 3]> for Vec3 {
    fn from([x, y, z]: [f64; 3]) -> Self {
        vec3(x, y, z)
    }
}

impl Add for Vec3 {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        vec3(self.x + o.x, self.y + o.y, self.z + o.z)
    }
}

impl AddAssign for Vec3 {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

impl Sub for Vec3 {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        vec3(self.x - o.x, self.y - o.y, self.z - o.z)
    }
}

impl Mul<f64> for Vec3 {
    type Output = Self;
    fn mul(self, k: f64) -> Self {
        vec3(self.x * k, self.y * k, self.z * k)
    }
}

impl Neg for Vec3 {
    type Output = Self;
    fn neg(self) -> Self {
        vec3(-self.x, -self.y, -self.z)
    }
}

/// 0 below `low`, 1 above `high`, a cubic in between.
#[must_use]
pub fn smoothstep(low: f64, high: f64, x: f64) -> f64 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}
