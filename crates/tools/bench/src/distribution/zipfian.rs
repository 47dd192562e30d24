//! Zipf's distribution for any exponent and any domain, by rejection-inversion.
//!
//! The method is Hörmann and Derflinger's (*Rejection-inversion to generate variates from monotone
//! discrete distributions*, 1996). The area under `h(x) = x^-theta` from `k - 1/2` to `k + 1/2`
//! covers the probability of rank `k`, as `h` is convex. So:
//!
//! 1. Draw a point of the area under `h` uniformly, as its integral `u`; invert to `x`.
//! 2. Round `x` to the rank `k` whose column it fell in.
//! 3. Accept if the point is in the part of the column that has `k`'s true mass. A constant
//!    `squeeze` accepts most points without computing that part.
//!
//! It needs no sum over the domain (YCSB's generator needs one, and an exponent below 1), and
//! rejects less than 15% of the points for any exponent.

use rand::Rng;

use super::unit;

/// Ranks `0..n` with probability proportional to `(rank + 1)^-theta`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    n: u64,
    theta: f64,
    integral_low: f64,
    integral_high: f64,
    squeeze: f64,
}

impl Zipfian {
    /// The distribution over `n` ranks (at least one) with exponent `theta`, zero or more; 0 is the
    /// uniform distribution.
    ///
    /// # Panics
    /// `n` is 0, or `theta` is negative or not finite; the command line refuses both.
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(n > 0 && theta.is_finite() && theta >= 0.0);
        Self {
            n,
            theta,
            integral_low: integral(1.5, theta) - 1.0,
            integral_high: integral(n as f64 + 0.5, theta),
            squeeze: 2.0 - integral_inverse(integral(2.5, theta) - height(2.0, theta), theta),
        }
    }

    /// The number of ranks.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Never: the domain has at least one rank.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A rank in `0..n`, 0 the most popular.
    pub fn draw(&self, random: &mut impl Rng) -> u64 {
        loop {
            let point =
                self.integral_high + unit(random) * (self.integral_low - self.integral_high);
            let x = integral_inverse(point, self.theta);
            let rank = ((x + 0.5) as u64).clamp(1, self.n);
            let k = rank as f64;
            if k - x <= self.squeeze
                || point >= integral(k + 0.5, self.theta) - height(k, self.theta)
            {
                return rank - 1;
            }
        }
    }
}

/// `h(x) = x^-theta`.
fn height(x: f64, theta: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// The integral of `h` from 1 to `x`: `(x^(1 - theta) - 1) / (1 - theta)`, and `ln x` at theta 1.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    expm1_over((1.0 - theta) * log) * log
}

/// The `x` whose [`integral`] is `y`.
fn integral_inverse(y: f64, theta: f64) -> f64 {
    // Values below -1 are outside of the integral's range for theta > 1, and are only met by
    // rounding.
    let t = (y * (1.0 - theta)).max(-1.0);
    (ln1p_over(t) * y).exp()
}

/// `(e^t - 1) / t`, whole at 0.
fn expm1_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 }
}

/// `ln(1 + t) / t`, whole at 0.
fn ln1p_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 }
}
