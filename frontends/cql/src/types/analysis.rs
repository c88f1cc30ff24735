//! What an index makes of texts before it compares them: letters without case, in one form of
//! Unicode, or without what ASCII does not have.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// How texts are changed before they are compared, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Analysis {
    /// Letters become small ones.
    pub(crate) folds_case: bool,
    /// Characters that can be written in several ways are written in one, which is NFC.
    pub(crate) normalizes: bool,
    /// Characters that are like some of ASCII become those.
    pub(crate) folds_to_ascii: bool,
}

/// Letters and signs that no decomposition leads to ASCII, each group behind what it becomes.
const ALIKE: &[(&str, &str)] = &[
    ("A", "ᴀⱭⱯ"),
    ("AE", "Æᴁ"),
    ("B", "ɃƁƂʙ"),
    ("C", "ȻƇᴄ"),
    ("D", "ÐĐƉƊƋᴅ"),
    ("E", "ƎƐƏɆᴇ"),
    ("F", "Ƒꜰ"),
    ("G", "ǤƓɢ"),
    ("H", "ĦⱧʜ"),
    ("I", "ƗƖɪ"),
    ("J", "Ɉᴊ"),
    ("K", "ƘⱩᴋ"),
    ("L", "ŁȽⱠⱢʟ"),
    ("M", "Ɯᴍ"),
    ("N", "ƝȠŊɴ"),
    ("O", "ØƆƟᴏ"),
    ("OE", "Œɶ"),
    ("P", "ƤⱣᴘ"),
    ("Q", "Ɋ"),
    ("R", "ɌƦⱤʀ"),
    ("S", "ꜱ"),
    ("SS", "ẞ"),
    ("T", "ŦƬƮȾᴛ"),
    ("TH", "Þ"),
    ("U", "ɄƱᴜ"),
    ("V", "Ʋᴠ"),
    ("W", "Ⱳᴡ"),
    ("Y", "ɎƳʏ"),
    ("Z", "ƵȤⱫᴢ"),
    ("a", "ɐəⱥ"),
    ("ae", "æᴂ"),
    ("b", "ƀƃɓ"),
    ("c", "ȼƈɕↄ"),
    ("d", "ðđƌɖɗ"),
    ("e", "ɇǝɛɘ"),
    ("f", "ƒ"),
    ("g", "ǥɠɡ"),
    ("h", "ħɦⱨ"),
    ("i", "ıɨ"),
    ("j", "ɉȷ"),
    ("k", "ƙⱪ"),
    ("l", "łƚɫⱡɬɭ"),
    ("m", "ɯɱ"),
    ("n", "ɲƞŋɳ"),
    ("o", "øɔɵ"),
    ("oe", "œ"),
    ("p", "ƥᵽ"),
    ("q", "ɋʠ"),
    ("r", "ɍɾɽɼ"),
    ("s", "ʂȿ"),
    ("ss", "ß"),
    ("t", "ŧƭʈⱦ"),
    ("th", "þ"),
    ("u", "ʉ"),
    ("v", "ʋⱴ"),
    ("w", "ⱳ"),
    ("y", "ɏƴ"),
    ("z", "ƶȥⱬʐʑ"),
    ("'", "‘’‚‛′‵‹›"),
    ("\"", "“”„‟″‶«»"),
    ("-", "‐‑‒–—―⁻₋"),
    ("/", "⁄"),
];

impl Analysis {
    /// The text as it is compared. What is no text is left as it is.
    pub(crate) fn apply<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        let Ok(text) = str::from_utf8(bytes) else {
            return Cow::Borrowed(bytes);
        };
        if text.is_ascii() {
            // Of ASCII only the case can change.
            return match self.folds_case && text.bytes().any(|byte| byte.is_ascii_uppercase()) {
                true => Cow::Owned(text.to_ascii_lowercase().into_bytes()),
                false => Cow::Borrowed(bytes),
            };
        }
        let mut text = Cow::Borrowed(text);
        if self.folds_case {
            text = Cow::Owned(text.to_lowercase());
        }
        if self.normalizes {
            let normalizer = const { ComposingNormalizerBorrowed::new_nfc() };
            text = Cow::Owned(normalizer.normalize(&text).into_owned());
        }
        if self.folds_to_ascii {
            text = Cow::Owned(to_ascii(&text));
        }
        match text {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }
}

/// The text with ASCII in the place of what is like it. Other characters stay.
fn to_ascii(text: &str) -> String {
    let normalizer = const { DecomposingNormalizerBorrowed::new_nfkd() };
    let mut folded = String::with_capacity(text.len());
    let mut buffer = [0; 4];
    for character in text.chars() {
        if character.is_ascii() {
            folded.push(character);
            continue;
        }
        let alike = ALIKE.iter().find(|(_, from)| from.contains(character));
        if let Some((to, _)) = alike {
            folded.push_str(to);
            continue;
        }
        let parts = normalizer.normalize(character.encode_utf8(&mut buffer));
        let base: String = parts.chars().filter(char::is_ascii).collect();
        let is_mark = |part: char| part.is_ascii() || ('\u{300}'..='\u{36f}').contains(&part);
        if !base.is_empty() && parts.chars().all(is_mark) {
            folded.push_str(&base);
        } else {
            folded.push(character);
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(options: &str, text: &str) -> String {
        let analysis = Analysis {
            folds_case: options.contains('c'),
            normalizes: options.contains('n'),
            folds_to_ascii: options.contains('a'),
        };
        String::from_utf8(analysis.apply(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn texts_are_changed_as_options_say() {
        for (options, text, expected) in [
            ("", "ÄbC", "ÄbC"),
            ("c", "ABC", "abc"),
            ("c", "ÄÖÜ ÇĞİ", "äöü çği\u{307}"),
            ("c", "ΑΣ", "ας"),
            ("n", "e\u{301}", "é"),
            ("n", "é", "é"),
            ("n", "\u{212b}", "Å"),
            ("a", "Éclair Ångström", "Eclair Angstrom"),
            ("a", "straße Æsir Øre Łódź", "strasse AEsir Ore Lodz"),
            ("a", "ﬁ ② Ｗide ½", "fi 2 Wide ½"),
            ("a", "“q” – ‘s’", "\"q\" - 's'"),
            ("a", "馬 한 я", "馬 한 я"),
            ("a", "e\u{301}", "e\u{301}"),
            ("na", "e\u{301}", "e"),
            ("ca", "ÉCLAIR", "eclair"),
            ("cna", "E\u{301}CLAIR", "eclair"),
            ("cna", "", ""),
        ] {
            assert_eq!(applied(options, text), expected, "{options} {text}");
        }
        let analysis = Analysis {
            folds_case: true,
            ..Analysis::default()
        };
        assert_eq!(*analysis.apply(b"\xffA"), b"\xffA"[..]);
    }
}
