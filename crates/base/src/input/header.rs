//! The header of a CSV file: its faults, and the separator of its columns.

/// The faults of a header, or `None`. `required` are the columns that it must have, `known` those
/// that it may have.
pub fn header_faults(names: &[&str], required: &[&str], known: &[&str]) -> Option<String> {
    let lacks = required.iter().copied().filter(|name| !names.contains(name));
    let unknown = names.iter().copied().filter(|name| !known.contains(name));
    let repeated = known
        .iter()
        .copied()
        .filter(|name| names.iter().filter(|other| *other == name).count() > 1);
    let mut faults = Vec::new();
    let mut fault = |verb: &str, kind: &str, names: Vec<&str>| {
        let plural = if names.len() == 1 { "" } else { "s" };
        if !names.is_empty() {
            // The start suffices to recognize a line that is no header.
            let names: String = names.join(", ").chars().take(160).collect();
            faults.push(format!("{verb} the {kind}column{plural} {names}"));
        }
    };
    fault("lacks", "", lacks.collect());
    fault("has", "unknown ", unknown.collect());
    fault("repeats", "", repeated.collect());
    (!faults.is_empty()).then(|| format!("the header {}", faults.join(" and ")))
}

/// The name of the separator of columns, if a line has at least one of the columns and no comma.
pub fn other_separator(line: &str, known: &[&str]) -> Option<&'static str> {
    if line.contains(',') {
        return None;
    }
    let has_columns = |separator| {
        let names = line.split(separator).map(|name| name.trim().trim_matches('"').to_lowercase());
        let names: Vec<String> = names.collect();
        names.len() > 1 && names.iter().any(|name| known.contains(&name.as_str()))
    };
    let separators = [(';', "semicolons"), ('\t', "tabs"), ('|', "vertical bars"), (' ', "spaces")];
    let found = separators.into_iter().find(|(separator, _)| has_columns(*separator));
    found.map(|(_, name)| name)
}
