//! Foreign texts in messages, with a limited length.
//!
//! Names of RBAC objects have no length limit, and responses of the API server may repeat them. The API server refuses a
//! `HierarchyConfiguration` status with too long a message as a whole, so every part of a message is limited.

use std::borrow::Cow;

/// The most bytes of a message: the limit of the API server for a condition.
pub const MESSAGE: usize = 32_768;

/// The most bytes of a quoted text in a message.
pub const QUOTE: usize = 1_024;

/// Names of most kinds are not longer than this, and are shown in full.
const NAME: usize = 253;

/// Replaces the part that is left out.
const LEFT_OUT: &str = "…";

/// A name in a message.
pub fn shown(name: &str) -> Cow<'_, str> {
    limited(name, NAME)
}

/// The text if it has at most this many bytes, else its beginning and its end: a message of the API server names the object at
/// the beginning and the fault at the end.
pub fn limited(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let kept = most.saturating_sub(LEFT_OUT.len());
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let beginning = (0..=kept - kept / 3).rev().find(is_boundary).unwrap_or(0);
    let end = (text.len() - kept / 3..text.len()).find(is_boundary).unwrap_or(text.len());
    format!("{}{LEFT_OUT}{}", &text[..beginning], &text[end..]).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_limited_text_is_short_and_has_both_ends(text in "\\PC{0,300}", most in 3_usize..400) {
            let limited = limited(&text, most);
            prop_assert!(limited.len() <= most.max(LEFT_OUT.len()));
            if text.len() <= most {
                prop_assert_eq!(&*limited, &*text);
            } else {
                let (beginning, end) = limited.split_once(LEFT_OUT).unwrap();
                prop_assert!(text.starts_with(beginning));
                prop_assert!(text.ends_with(end) || end.contains(LEFT_OUT) || beginning.contains(LEFT_OUT));
                prop_assert!(limited.len() + 8 > most, "no more is left out than needed");
            }
        }
    }

    #[test]
    fn ordinary_names_are_shown_whole() {
        assert_eq!(shown(&"n".repeat(253)), "n".repeat(253));
        let long = shown(&"n".repeat(40_000)).into_owned();
        assert_eq!((long.len(), long.contains(LEFT_OUT)), (253, true));
    }
}
