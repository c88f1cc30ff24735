//! How alike two vectors are.

use super::{Call, Pattern, Returns, Row};
use crate::error::{CqlError, Result};
use crate::types::{Native, vector_elements};

const OVERLOADS: &[(&[Pattern], Returns)] = &[(
    &[Pattern::Vector, Pattern::First],
    Returns::Native(Native::Float),
)];

pub(super) const ROWS: &[Row] = &[
    row("similarity_cosine", cosine),
    row("similarity_euclidean", euclidean),
    row("similarity_dot_product", dot_product),
];

const fn row(name: &'static str, evaluate: super::Evaluate) -> Row {
    Row {
        name,
        legacy: name,
        overloads: OVERLOADS,
        takes_null: false,
        evaluate,
    }
}

fn floats(call: &Call<'_>, index: usize) -> Result<Vec<f32>> {
    let (Some(bytes), Some(data_type)) = (call.bytes(index), call.types.get(index)) else {
        return Ok(Vec::new());
    };
    let wrong = || CqlError::invalid("the vectors must be vectors of floats");
    let read = |bytes: &[u8]| {
        bytes
            .try_into()
            .map(f32::from_be_bytes)
            .map_err(|_| wrong())
    };
    vector_elements(bytes, data_type)?
        .into_iter()
        .map(read)
        .collect()
}

fn pairs(call: &Call<'_>) -> Result<Vec<(f32, f32)>> {
    Ok(floats(call, 0)?.into_iter().zip(floats(call, 1)?).collect())
}

fn dot(pairs: &[(f32, f32)]) -> f32 {
    pairs.iter().map(|(left, right)| left * right).sum()
}

fn answer(similarity: f32) -> Result<Option<Vec<u8>>> {
    Ok(Some(similarity.to_be_bytes().to_vec()))
}

fn cosine(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let pairs = pairs(call)?;
    let length = |of: fn(&(f32, f32)) -> f32| pairs.iter().map(|p| of(p) * of(p)).sum::<f32>();
    let (left, right) = (length(|pair| pair.0), length(|pair| pair.1));
    if left == 0.0 || right == 0.0 {
        return Err(CqlError::invalid(
            "Function system.similarity_cosine doesn't support all-zero vectors.",
        ));
    }
    answer((1.0 + dot(&pairs) / (left * right).sqrt()) / 2.0)
}

fn euclidean(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let pairs = pairs(call)?;
    let square: f32 = pairs.iter().map(|(l, r)| (l - r) * (l - r)).sum();
    answer(1.0 / (1.0 + square))
}

fn dot_product(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    answer((1.0 + dot(&pairs(call)?)) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::called;
    use crate::types::{DataType, Native};

    #[test]
    fn likeness_is_between_zero_and_one() {
        let vector = || DataType::Vector {
            element: Box::new(Native::Float.into()),
            dimension: 2,
        };
        for (name, left, right, expected) in [
            ("similarity_cosine", "[1, 0]", "[2, 0]", "1.0"),
            ("similarity_cosine", "[1, 0]", "[0, 1]", "0.5"),
            ("similarity_euclidean", "[1, 0]", "[0, 0]", "0.5"),
            ("similarity_dot_product", "[1, 0]", "[1, 0]", "1.0"),
            ("similarity_dot_product", "[1, 0]", "null", "null"),
        ] {
            assert_eq!(
                called(name, &[(vector(), left), (vector(), right)]),
                expected
            );
        }
        let zero = called(
            "similarity_cosine",
            &[(vector(), "[0, 0]"), (vector(), "[1, 1]")],
        );
        assert!(zero.contains("all-zero"), "{zero}");
    }
}
