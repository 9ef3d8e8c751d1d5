//! The output formats of `-o`, which have the same data as the text.

use clap::ValueEnum;
use serde::Serialize;

use crate::Failure;

/// The formats of all reading commands, besides text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only, one per line, each with its resource.
    Name,
}

/// The formats of what has no names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl From<DataFormat> for Format {
    fn from(format: DataFormat) -> Self {
        match format {
            DataFormat::Json => Self::Json,
            DataFormat::Yaml => Self::Yaml,
        }
    }
}

/// `data` in this format; `names` are the lines of [`Format::Name`].
pub(crate) fn render(
    format: Format,
    data: &impl Serialize,
    names: impl IntoIterator<Item = String>,
) -> Result<String, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::new(format!("Error: cannot print the data: {error}"));
    match format {
        Format::Json => {
            serde_json::to_string_pretty(data).map(|text| text + "\n").map_err(|error| wrong(&error))
        }
        Format::Yaml => {
            let value = serde_json::to_value(data).map_err(|error| wrong(&error))?;
            let text = serde_saphyr::to_string(&value).map_err(|error| wrong(&error))?;
            Ok(if text.ends_with('\n') { text } else { text + "\n" })
        }
        Format::Name => Ok(names.into_iter().map(|name| name + "\n").collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_rendered_in_three_formats() {
        let data = serde_json::json!({ "name": "a", "list": [1, "true"] });
        let render = |format| render(format, &data, ["x/a".to_owned(), "x/b".to_owned()]).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&render(Format::Json)).unwrap(), data);
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&render(Format::Yaml)).unwrap(), data);
        assert_eq!(render(Format::Name), "x/a\nx/b\n");
    }
}
