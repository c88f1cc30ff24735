//! The collation data of ICU with one wish added: whether accents count from the end of a word,
//! which the collator takes from a locale's data alone.

use icu_collator::provider::{
    Baked, CollationDiacriticsV1, CollationJamoV1, CollationMetadata, CollationMetadataV1,
    CollationReorderingV1, CollationRootV1, CollationSpecialPrimariesV1, CollationTailoringV1,
};
use icu_normalizer::provider::{NormalizerNfdDataV1, NormalizerNfdTablesV1};
use icu_provider::{DataError, DataPayload, DataProvider, DataRequest, DataResponse};

/// The bit of a locale's metadata that counts accents from the end.
const BACKWARDS: u32 = 1 << 7;

/// The compiled data; `backwards` overrides what the locale says.
pub(super) struct Data {
    pub(super) backwards: Option<bool>,
}

impl DataProvider<CollationMetadataV1> for Data {
    fn load(
        &self,
        request: DataRequest<'_>,
    ) -> Result<DataResponse<CollationMetadataV1>, DataError> {
        let mut response: DataResponse<CollationMetadataV1> = Baked.load(request)?;
        if let Some(backwards) = self.backwards {
            let bits = response.payload.get().bits & !BACKWARDS;
            response.payload = DataPayload::from_owned(CollationMetadata {
                bits: if backwards { bits | BACKWARDS } else { bits },
            });
        }
        Ok(response)
    }
}

macro_rules! as_compiled {
    ($($marker:ty = $compiled:expr,)*) => {$(
        impl DataProvider<$marker> for Data {
            fn load(&self, request: DataRequest<'_>) -> Result<DataResponse<$marker>, DataError> {
                $compiled.load(request)
            }
        }
    )*};
}

as_compiled! {
    CollationDiacriticsV1 = Baked,
    CollationJamoV1 = Baked,
    CollationReorderingV1 = Baked,
    CollationRootV1 = Baked,
    CollationSpecialPrimariesV1 = Baked,
    CollationTailoringV1 = Baked,
    NormalizerNfdDataV1 = icu_normalizer::provider::Baked,
    NormalizerNfdTablesV1 = icu_normalizer::provider::Baked,
}
