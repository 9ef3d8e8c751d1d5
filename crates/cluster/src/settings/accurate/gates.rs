//! Feature gates in the way of Kubernetes' components: `NAME=BOOL,…`.

use std::collections::BTreeMap;

use super::super::Invalid;
use super::super::values::boolean;

const DISABLE_PROPAGATE_GENERATED: &str = "DisablePropagateGenerated";

/// What the gates decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Whether objects with an owner are propagated if the owner asks for it. Deprecated: the gate `DisablePropagateGenerated`
    /// (Beta, on by default) turns it off.
    pub propagate_generated: bool,
}

impl FeatureGates {
    /// The gates that are set to these values; the others have their defaults. `AllAlpha` and `AllBeta` set every gate of that
    /// maturity that is not set itself.
    ///
    /// # Errors
    /// There is no such gate.
    pub fn new(set: &BTreeMap<String, bool>) -> Result<Self, Invalid> {
        let known = [DISABLE_PROPAGATE_GENERATED, "AllAlpha", "AllBeta"];
        if let Some(unknown) = set.keys().find(|it| !known.contains(&it.as_str())) {
            return Err(Invalid::new(
                unknown,
                format!("no such feature gate; there are {}", known.join(", ")),
            ));
        }
        let disabled = set.get(DISABLE_PROPAGATE_GENERATED).or_else(|| set.get("AllBeta"));
        Ok(disabled.map_or_else(Self::default, |disabled| Self { propagate_generated: !disabled }))
    }
}

/// The values that the flag `--feature-gates` sets.
///
/// # Errors
/// What is wrong with it.
pub fn parse_flag(value: &str) -> Result<BTreeMap<String, bool>, String> {
    let parts = value.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, word) = part.split_once('=').ok_or(format!("{}: expected NAME=BOOL", part.trim()))?;
            let is_on =
                boolean(word.trim()).map_err(|reason| format!("{}: {word:?}: {reason}", name.trim()))?;
            Ok((name.trim().to_owned(), is_on))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_counts_before_its_group() {
        for (flag, propagates) in [
            ("", false),
            ("DisablePropagateGenerated=true", false),
            ("DisablePropagateGenerated=false", true),
            ("AllBeta=false", true),
            ("AllBeta=f,DisablePropagateGenerated=T", false),
            (" DisablePropagateGenerated = 0 ,,AllBeta=true", true),
            ("AllAlpha=false", false),
            ("AllAlpha=true", false),
        ] {
            let gates = FeatureGates::new(&parse_flag(flag).unwrap()).unwrap();
            assert_eq!(gates.propagate_generated, propagates, "{flag}");
        }
    }

    #[test]
    fn a_mistake_is_named() {
        for (flag, reason) in [
            ("AllBeta", "AllBeta: expected NAME=BOOL"),
            ("AllBeta=yes", "AllBeta: \"yes\": expected true or false"),
            ("AllBeta=", "AllBeta: \"\": expected true"),
        ] {
            assert!(parse_flag(flag).unwrap_err().contains(reason), "{flag}");
        }
        let unknown = FeatureGates::new(&parse_flag("Other=true").unwrap()).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "Other: no such feature gate; there are DisablePropagateGenerated, AllAlpha, AllBeta"
        );
    }
}
