//! How alike two vectors are: by their angle, their product or their distance.

use super::{DataType, vector_elements};
use crate::error::{CqlError, Result};

/// What decides how alike two vectors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Similarity {
    #[default]
    Cosine,
    DotProduct,
    Euclidean,
}

impl Similarity {
    /// The names that there are, as Cassandra lists them.
    pub(crate) const NAMES: &str = "EUCLIDEAN, DOT_PRODUCT, COSINE";

    /// The one of this name, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "cosine" => Self::Cosine,
            "dot_product" => Self::DotProduct,
            "euclidean" => Self::Euclidean,
            _ => return None,
        })
    }

    /// The more alike, the larger; none if a vector without a direction is asked for its angle.
    pub(crate) fn of(self, left: &[f32], right: &[f32]) -> Option<f32> {
        let sum = |of: fn(f32, f32) -> f32| -> f32 {
            left.iter().zip(right).map(|(l, r)| of(*l, *r)).sum()
        };
        let dot = || sum(|l, r| l * r);
        Some(match self {
            Self::Euclidean => 1.0 / (1.0 + sum(|l, r| (l - r) * (l - r))),
            Self::DotProduct => (1.0 + dot()) / 2.0,
            Self::Cosine if is_zero(left) || is_zero(right) => return None,
            Self::Cosine => {
                let lengths = sum(|l, _| l * l) * sum(|_, r| r * r);
                (1.0 + dot() / lengths.sqrt()) / 2.0
            }
        })
    }
}

/// Whether a vector has no direction.
pub(crate) fn is_zero(vector: &[f32]) -> bool {
    vector.iter().all(|element| *element == 0.0)
}

/// The elements of a vector of floats.
pub(crate) fn vector_floats(bytes: &[u8], data_type: &DataType) -> Result<Vec<f32>> {
    let wrong = || CqlError::invalid("the vectors must be vectors of floats");
    let read = |bytes: &[u8]| {
        let float = bytes.try_into().map(f32::from_be_bytes);
        float.map_err(|_| wrong())
    };
    let elements = vector_elements(bytes, data_type)?;
    elements.into_iter().map(read).collect()
}
