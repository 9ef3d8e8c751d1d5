//! The syntax of selectors against what the API server says, and their meaning against the obvious.

use super::*;

fn select(text: &str, labels: &Pairs) -> Result<bool, Unparsable> {
    let exceptions = parse(Some(text), None, None, None)?;
    Ok(exceptions.admit(Mode::Propagate, &|key| labels.get(key).cloned()).is_ok())
}

#[test]
fn what_the_api_server_accepts_is_accepted_and_nothing_else() {
    let lines = include_str!("selectors.txt").lines();
    let mut count = 0;
    for line in lines.filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (accepted, text) = line.split_once(' ').unwrap();
        let text: String = serde_json::from_str(text.trim()).unwrap();
        let parsed = select(&text, &Pairs::new());
        assert_eq!(parsed.is_ok(), accepted == "yes", "{text:?}: {parsed:?}");
        count += 1;
    }
    assert!(count >= 150, "only {count} lines");
}

/// The API server ends a text there; what stands behind would be accepted unread.
/// One takes no more memory than its text.
#[test]
fn a_selector_has_at_most_eight_kibibytes() {
    let selector = |values: usize| {
        let values: Vec<String> = (0..values).map(|at| format!("{at:062}")).collect();
        select(&format!("k in ({})", values.join(",")), &Pairs::new())
    };
    assert_eq!(selector(128), Ok(false));
    let refused = selector(131).unwrap_err();
    assert!(refused.why.starts_with("a selector has at most 8192 bytes, and "), "{refused:?}");
}

#[test]
fn a_nul_is_refused() {
    for text in ["\0", "a\0", "a=b\0", "a=b\0,c", "\0a=b", "a in (b\0)"] {
        assert!(select(text, &Pairs::new()).is_err(), "{text:?}");
    }
}

#[derive(Debug, Clone)]
enum Naive {
    Exists(String),
    Missing(String),
    Is(String, String),
    IsNot(String, String),
    Among(String, Vec<String>),
    NotAmong(String, Vec<String>),
    Above(String, i64),
    Below(String, i64),
}

impl Naive {
    fn words(&self) -> Vec<String> {
        let words: Vec<&str> = match self {
            Self::Exists(key) => vec![key],
            Self::Missing(key) => vec!["!", key],
            Self::Is(key, value) => vec![key, "=", value],
            Self::IsNot(key, value) => vec![key, "!=", value],
            Self::Among(key, values) => return Self::listed(key, " in ", values),
            Self::NotAmong(key, values) => return Self::listed(key, " notin ", values),
            Self::Above(key, number) => return vec![key.clone(), ">".into(), number.to_string()],
            Self::Below(key, number) => return vec![key.clone(), "<".into(), number.to_string()],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    fn listed(key: &str, operator: &str, values: &[String]) -> Vec<String> {
        vec![key.into(), operator.into(), "(".into(), values.join(" , "), ")".into()]
    }

    fn holds(&self, labels: &Pairs) -> bool {
        let number = |key| labels.get(key).and_then(|value: &String| value.parse::<i64>().ok());
        match self {
            Self::Exists(key) => labels.contains_key(key),
            Self::Missing(key) => !labels.contains_key(key),
            Self::Is(key, value) => labels.get(key) == Some(value),
            Self::IsNot(key, value) => labels.get(key) != Some(value),
            Self::Among(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotAmong(key, values) => !labels.get(key).is_some_and(|value| values.contains(value)),
            Self::Above(key, bound) => number(key).is_some_and(|number| number > *bound),
            Self::Below(key, bound) => number(key).is_some_and(|number| number < *bound),
        }
    }

    fn key_of_equality(&self) -> Option<&str> {
        match self {
            Self::Is(key, _) => Some(key),
            _ => None,
        }
    }
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "in", "notin", "x.y/a"]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "in", "notin", "5", "7", "007", "x_y.z"]).prop_map(str::to_owned)
}

fn requirement() -> impl Strategy<Value = Naive> {
    let values = || prop::collection::vec(value(), 1..4);
    prop_oneof![
        key().prop_map(Naive::Exists),
        key().prop_map(Naive::Missing),
        (key(), value()).prop_map(|(key, value)| Naive::Is(key, value)),
        (key(), value()).prop_map(|(key, value)| Naive::IsNot(key, value)),
        (key(), values()).prop_map(|(key, values)| Naive::Among(key, values)),
        (key(), values()).prop_map(|(key, values)| Naive::NotAmong(key, values)),
        (key(), 0i64..9).prop_map(|(key, number)| Naive::Above(key, number)),
        (key(), 0i64..9).prop_map(|(key, number)| Naive::Below(key, number)),
    ]
}

/// All must hold, but of the equalities on one key only the last.
fn all_hold(requirements: &[Naive], labels: &Pairs) -> bool {
    requirements.iter().enumerate().all(|(at, requirement)| {
        let key = requirement.key_of_equality();
        let is_replaced =
            key.is_some() && requirements[at + 1..].iter().any(|later| later.key_of_equality() == key);
        is_replaced || requirement.holds(labels)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_selector_means_what_it_says(
        requirements in prop::collection::vec(requirement(), 1..5),
        blanks in prop::collection::vec(prop::sample::select(vec!["", "", " ", "\t", " \n"]), 1..9),
        labels in prop::collection::btree_map(key(), value(), 0..4),
    ) {
        let parts: Vec<Vec<String>> = requirements.iter().map(Naive::words).collect();
        let mut blanks = blanks.iter().cycle();
        let mut text = String::new();
        for word in parts.join(&",".to_owned()) {
            text += blanks.next().unwrap();
            text += &word;
        }
        let parsed = select(&text, &labels);
        prop_assert_eq!(parsed, Ok(all_hold(&requirements, &labels)), "{:?}", text);
    }
}
