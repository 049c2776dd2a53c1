//! Ridge regression: the b that minimises sum (y - x b)² + ridge |b|².
//!
//! The normal equations (X'X + ridge I) b = X'y are solved with a Cholesky factor. This is suitable
//! for a few unknowns only.

/// The sums over observations from which the solution is computed.
pub(crate) struct LeastSquares {
    unknowns: usize,
    /// X'X, row by row. Only the lower triangle is filled.
    products: Vec<f64>,
    /// X'y.
    targets: Vec<f64>,
}

impl LeastSquares {
    pub(crate) fn new(unknowns: usize) -> Self {
        Self { unknowns, products: vec![0.0; unknowns * unknowns], targets: vec![0.0; unknowns] }
    }

    /// Adds an observation `y` with one regressor in `x` for each unknown.
    pub(crate) fn add(&mut self, x: &[f64], y: f64) {
        let rows = self.products.chunks_exact_mut(self.unknowns).zip(&mut self.targets);
        for (at, (row, target)) in rows.enumerate() {
            row.iter_mut().zip(&x[..=at]).for_each(|(sum, other)| *sum += x[at] * other);
            *target += x[at] * y;
        }
    }

    /// Returns the solution b. `None` where X'X + ridge I is numerically singular or a number is
    /// not finite.
    pub(crate) fn solve(&self, ridge: f64) -> Option<Vec<f64>> {
        let factor = self.factor(ridge)?;
        let at = |row: usize, column: usize| factor[row * self.unknowns + column];
        let mut solution = self.targets.clone();
        for row in 0..self.unknowns {
            let known: f64 = (0..row).map(|column| at(row, column) * solution[column]).sum();
            solution[row] = (solution[row] - known) / at(row, row);
        }
        for row in (0..self.unknowns).rev() {
            let known: f64 =
                (row + 1..self.unknowns).map(|below| at(below, row) * solution[below]).sum();
            solution[row] = (solution[row] - known) / at(row, row);
        }
        solution.iter().all(|b| b.is_finite()).then_some(solution)
    }

    /// Returns the lower triangle L with L L' = X'X + ridge I.
    fn factor(&self, ridge: f64) -> Option<Vec<f64>> {
        let n = self.unknowns;
        let mut factor = self.products.clone();
        for row in 0..n {
            for column in 0..=row {
                let known: f64 =
                    (0..column).map(|k| factor[row * n + k] * factor[column * n + k]).sum();
                let rest = factor[row * n + column] - known;
                factor[row * n + column] = if row == column {
                    Some(rest + ridge).filter(|rest| *rest > 0.0)?.sqrt()
                } else {
                    rest / factor[column * n + column]
                };
            }
        }
        Some(factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(observations: &[([f64; 2], f64)], ridge: f64, expected: Option<[f64; 2]>) {
        let mut sums = LeastSquares::new(2);
        for (x, y) in observations {
            sums.add(x, *y);
        }
        let solution = sums.solve(ridge);
        assert_eq!(solution.is_some(), expected.is_some());
        let pairs = solution.iter().flatten().zip(expected.iter().flatten());
        pairs.for_each(|(b, expected)| assert!((b - expected).abs() < 1e-9, "{solution:?}"));
    }

    #[test]
    fn lines_are_fitted_through_points() {
        check(&[([1.0, 0.0], 1.0), ([1.0, 1.0], 3.0), ([1.0, 2.0], 5.0)], 0.0, Some([1.0, 2.0]));
        // The points (0, 0), (1, 3) and (2, 0) have the mean 1 and no slope.
        check(&[([1.0, 0.0], 0.0), ([1.0, 1.0], 3.0), ([1.0, 2.0], 0.0)], 0.0, Some([1.0, 0.0]));
    }

    #[test]
    fn a_ridge_shrinks_the_solution() {
        check(&[([2.0, 0.0], 4.0), ([0.0, 1.0], 1.0)], 1.0, Some([1.6, 0.5]));
        check(&[([1.0, 1.0], 1.0)], 0.0, None);
        check(&[([1.0, 1.0], 1.0)], 1.0, Some([1.0 / 3.0, 1.0 / 3.0]));
        check(&[([f64::NAN, 1.0], 1.0)], 1.0, None);
    }
}
