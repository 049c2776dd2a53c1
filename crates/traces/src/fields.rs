//! Splits a line of delimited text into its fields.

use std::borrow::Cow;

use super::reader::TraceFault;

/// Splits a line at commas. A field in double quotes may contain commas, and a doubled quote is a
/// quote. Fields are trimmed.
///
/// # Errors
/// A quoted field does not end on the line, or text follows its closing quote.
pub(super) fn split(line: &str) -> Result<Vec<Cow<'_, str>>, TraceFault> {
    split_at(line, ',')
}

/// Splits a line at a delimiter, like [`split`].
///
/// # Errors
/// As [`split`].
pub(super) fn split_at(line: &str, delimiter: char) -> Result<Vec<Cow<'_, str>>, TraceFault> {
    if !line.contains('"') {
        return Ok(line.split(delimiter).map(|field| field.trim().into()).collect());
    }
    let cut = |text| cut(text, delimiter);
    let mut fields = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let text = text.trim_start_matches(|c: char| c.is_whitespace() && c != delimiter);
        let Some(quoted) = text.strip_prefix('"') else {
            let (field, after) = cut(text);
            fields.push(field.trim().into());
            rest = after;
            continue;
        };
        let end = closing_quote(quoted).ok_or_else(|| {
            TraceFault::new("", "a quote is not closed before the end of the line", text)
        })?;
        fields.push(quoted[..end].replace("\"\"", "\"").into());
        let (beyond, after) = cut(&quoted[end + 1..]);
        if !beyond.trim().is_empty() {
            return Err(TraceFault::new("", "text follows a closing quote", text));
        }
        rest = after;
    }
    Ok(fields)
}

/// The text before the first delimiter, and the text after it.
fn cut(text: &str, delimiter: char) -> (&str, Option<&str>) {
    text.split_once(delimiter).map_or((text, None), |(field, after)| (field, Some(after)))
}

/// The position of the first quote that is not doubled.
fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at += bytes[at..].iter().position(|byte| *byte == b'"')?;
        if bytes.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        assert_eq!(split(line).unwrap(), expected);
    }

    #[test]
    fn quoted_fields_may_contain_commas_and_quotes() {
        check("", &[""]);
        check("a, b ,", &["a", "b", ""]);
        check(r#""a,b", "c""d" ,e"#, &["a,b", "c\"d", "e"]);
        check(r#""","""""#, &["", "\""]);
        for bad in [r#""a"#, r#"b,"a"""#, r#""a"b,c"#] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
