//! How alike two vectors are.

use super::{Call, Pattern, Returns, Row};
use crate::error::{CqlError, Result};
use crate::types::{Native, Similarity, vector_floats};

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

/// How alike the two arguments are, neither of which is null.
fn alike(call: &Call<'_>, similarity: Similarity) -> Result<Option<f32>> {
    let floats = |index| match (call.bytes(index), call.types.get(index)) {
        (Some(bytes), Some(data_type)) => vector_floats(bytes, data_type),
        _ => Ok(Vec::new()),
    };
    Ok(similarity.of(&floats(0)?, &floats(1)?))
}

fn answer(similarity: Option<f32>) -> Result<Option<Vec<u8>>> {
    Ok(similarity.map(|similarity| similarity.to_be_bytes().to_vec()))
}

fn cosine(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let similarity = alike(call, Similarity::Cosine)?;
    if similarity.is_none() {
        return Err(CqlError::invalid(
            "Function system.similarity_cosine doesn't support all-zero vectors.",
        ));
    }
    answer(similarity)
}

fn euclidean(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    answer(alike(call, Similarity::Euclidean)?)
}

fn dot_product(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    answer(alike(call, Similarity::DotProduct)?)
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
