//! The locales that MongoDB knows, in the names it gives them.

use icu_collator::CollatorPreferences;
use icu_locale_core::Locale;

/// Locales without the variants below.
const LOCALES: &[&str] = &[
    "af",
    "am",
    "ar",
    "as",
    "az",
    "be",
    "bg",
    "bn",
    "bo",
    "bs",
    "bs_Cyrl",
    "ca",
    "chr",
    "cs",
    "cy",
    "da",
    "de",
    "de_AT",
    "dsb",
    "dz",
    "ee",
    "el",
    "en",
    "en_US",
    "en_US_POSIX",
    "eo",
    "es",
    "et",
    "fa",
    "fa_AF",
    "fi",
    "fil",
    "fo",
    "fr",
    "fr_CA",
    "ga",
    "gl",
    "gu",
    "ha",
    "haw",
    "he",
    "hi",
    "hr",
    "hsb",
    "hu",
    "hy",
    "id",
    "ig",
    "is",
    "it",
    "ja",
    "ka",
    "kk",
    "kl",
    "km",
    "kn",
    "ko",
    "kok",
    "ky",
    "lb",
    "lkt",
    "ln",
    "lo",
    "lt",
    "lv",
    "mk",
    "ml",
    "mn",
    "mr",
    "ms",
    "mt",
    "my",
    "nb",
    "ne",
    "nl",
    "nn",
    "om",
    "or",
    "pa",
    "pl",
    "ps",
    "pt",
    "ro",
    "ru",
    "se",
    "si",
    "sk",
    "sl",
    "smn",
    "sq",
    "sr",
    "sr_Latn",
    "sv",
    "sw",
    "ta",
    "te",
    "th",
    "to",
    "tr",
    "ug",
    "uk",
    "ur",
    "vi",
    "wae",
    "yi",
    "yo",
    "zh",
    "zh_Hant",
    "zu",
];

/// What may follow `@collation=`, with the name it has in a language tag, and the locales that have
/// it. The two search orders are the locale's ordinary one here: they differ only in what a search
/// within a text takes for equal, which MongoDB does not do.
const VARIANTS: &[(&str, &str, &[&str])] = &[
    ("compat", "compat", &["ar"]),
    ("dictionary", "dict", &["si"]),
    ("eor", "eor", LOCALES),
    ("phonebook", "phonebk", &["de", "de_AT"]),
    ("phonetic", "phonetic", &["ln"]),
    ("pinyin", "pinyin", &["zh", "zh_Hant"]),
    ("reformed", "reformed", &["sv"]),
    ("search", "standard", LOCALES),
    ("searchjl", "standard", &["ko"]),
    ("standard", "standard", LOCALES),
    ("stroke", "stroke", &["zh", "zh_Hant"]),
    ("traditional", "trad", &["bn", "es", "fi", "kn", "sv", "vi"]),
    ("unihan", "unihan", &["ja", "ko", "zh", "zh_Hant"]),
    ("zhuyin", "zhuyin", &["zh", "zh_Hant"]),
];

/// The preferences of the locale of that name; none if MongoDB has no such locale.
pub(super) fn preferences(name: &str) -> Option<CollatorPreferences> {
    let (locale, variant) = match name.split_once("@collation=") {
        Some((locale, variant)) => (locale, Some(variant)),
        None => (name, None),
    };
    if !LOCALES.contains(&locale) {
        return None;
    }
    let mut tag = match locale {
        "en_US_POSIX" => "en-US-posix".to_owned(),
        _ => locale.replace('_', "-"),
    };
    if let Some(variant) = variant {
        let (_, extension, locales) = VARIANTS.iter().find(|(known, ..)| *known == variant)?;
        if !locales.contains(&locale) {
            return None;
        }
        tag.push_str("-u-co-");
        tag.push_str(extension);
    }
    tag.parse::<Locale>().ok().map(|locale| (&locale).into())
}
