//! The documentation agrees with the program: the generated reference, the examples, and the links.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::built;

/// The pages of the reference, which `make reference` writes.
const PAGES: [&str; 3] = ["commands", "policy", "metrics"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn source(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_pages_of_the_reference_are_up_to_date() {
    for page in PAGES {
        // The values of variables must not show in the page.
        let output = tests::prophet(&["reference", page])
            .env("PROPHET_DATA", "/elsewhere")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let written = source(&format!("docs/reference/{page}.md"));
        let printed = String::from_utf8(output.stdout).unwrap();
        let differs = printed.lines().zip(written.lines()).find(|(new, old)| new != old);
        assert!(printed == written, "docs/reference/{page}.md: run make reference: {differs:?}");
    }
}

/// The spellings of an enum: those that its function `label` returns.
fn labels(path: &str, kind: &str) -> Vec<String> {
    let text = source(path);
    let label = text.split(&format!("\nimpl {kind} {{")).nth(1).unwrap();
    let label = label.split("fn label(").nth(1).unwrap().split(" fn ").next().unwrap();
    let labels = label.lines().filter_map(|line| line.split_once("=> \""));
    labels.map(|(_, rest)| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn every_reason_has_a_row_in_the_page_of_the_metrics() {
    let page = source("docs/reference/metrics.md");
    for (path, kind, least) in [
        ("placeholders/src/reason.rs", "Reason", 19),
        ("crates/controller/src/outcome.rs", "Cause", 12),
        ("crates/controller/src/observe/held_back.rs", "HeldBack", 10),
    ] {
        let labels = labels(path, kind);
        assert!(labels.len() >= least, "{path}: {labels:?}");
        for label in labels {
            assert!(page.contains(&format!("\n| `{label}` | ")), "{path}: {label} has no row");
        }
    }
}

/// Runs cfn-lint, which the emulator of AWS depends on; returns what it printed.
fn cfn_lint(template: &Path) -> String {
    let python = built::control_plane("python/bin/python").unwrap();
    let program = "import sys; from cfnlint.runner import main; sys.exit(main())";
    let output = Command::new(python).args(["-c", program]).arg(template).output().unwrap();
    let printed = printed(&output);
    assert_eq!(output.status.success(), printed.is_empty(), "{printed}");
    printed
}

#[test]
fn the_cloudformation_example_is_valid() {
    let example = repository().join("docs/examples/groups.yaml");
    assert_eq!(cfn_lint(&example), "");
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("groups.yaml");
    let text = fs::read_to_string(example).unwrap();
    fs::write(&wrong, text.replace("MaxSize: !Ref", "MaxSiz: !Ref")).unwrap();
    assert!(cfn_lint(&wrong).contains("'MaxSize' is a required property"));
}

/// Each field in `value` that the schema does not have.
fn unknown(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    let below = |name: &str| format!("{path}.{name}");
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (&schema["properties"][name], &schema["additionalProperties"]) {
                    (Value::Null, Value::Null) => found.push(below(name)),
                    (Value::Null, any) => unknown(field, any, &below(name), found),
                    (known, _) => unknown(field, known, &below(name), found),
                }
            }
        }
        Value::Array(elements) => {
            for element in elements {
                unknown(element, &schema["items"], path, found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_policies_of_the_pages_have_only_fields_of_the_schema() {
    let crd: Value = serde_json::from_str(&source("charts/prophet/files/crd.json")).unwrap();
    let of = |at: usize| &crd["items"][at]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let (schema, planned) = (of(0), of(1));
    let (mut found, mut policies) = (Vec::new(), 0);
    for entry in fs::read_dir(repository().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        for block in page.split("```yaml\n").skip(1) {
            for document in block.split("```").next().unwrap().split("\n---\n") {
                let value: Value = serde_saphyr::from_str(document)
                    .unwrap_or_else(|error| panic!("{}: {error}\n{document}", path.display()));
                // The values of the chart contain policies.
                let listed = value["policies"].as_array().cloned().unwrap_or_default();
                let name = format!("{}: spec", path.display());
                if value["kind"] == "PlannedDemand" {
                    let spec = &planned["properties"]["spec"];
                    unknown(&value["spec"], spec, &name, &mut found);
                }
                let alone = value["kind"] == "OverprovisioningPolicy";
                for policy in listed.iter().chain(alone.then_some(&value)) {
                    unknown(&policy["spec"], &schema["properties"]["spec"], &name, &mut found);
                    policies += 1;
                }
            }
        }
    }
    assert!(found.is_empty(), "fields that the schema does not have:\n{}", found.join("\n"));
    assert!(policies > 3, "the pages have {policies} policies");
}

/// A book of one page with these elements, as mdBook would write it, and what the check of links
/// prints about it.
#[track_caller]
fn check_links(elements: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), elements).unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    fs::write(folder.path().join("below/page.html"), "<h2 id='here'>Here</h2>").unwrap();
    let script = repository().join("tests/links.py");
    let output = Command::new("python3").arg(script).arg(folder.path()).output().unwrap();
    let printed = printed(&output);
    assert_eq!(output.status.success(), expected.is_empty(), "{elements}: {printed}");
    assert!(printed.contains(expected), "{elements}: {printed}");
}

/// The links of the repository's own Markdown files are checked in the same run.
#[test]
fn broken_links_of_the_book_are_found() {
    check_links(
        "<a href='below/page.html#here'>a page</a><a href='https://example.com'>a site</a>",
        "",
    );
    check_links("<a href='gone.html'>a page</a>", "index.html: gone.html: no such file");
    check_links("<img src='gone.png'>", "index.html: gone.png: no such file");
    check_links("<a href='below/page.html#gone'>a part</a>", "#gone: no such heading");
    check_links("<a href='#gone'>a part</a>", "#gone: no such heading");
    check_links("<a href='../other/README.html'>a file</a>", "leads out of the book");
}
