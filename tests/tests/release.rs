//! The image and the artefacts of a release: what the image contains, that the product runs in it,
//! and that the artefacts are complete and can be made again.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::control_plane::ControlPlane;
use tests::installed::{NAMESPACE, Prophet, policy, status};
use tests::own_root::{OwnRoot, USER};
use tests::{built, helm, wait};

/// The longest wait for a condition, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// Where a pod finds the credentials of its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A catalog, which the chart mounts at `/etc/prophet/catalog.yaml`.
const CATALOG: &str = "instanceTypes: [{name: m5.large, cpuMillis: 2000, pricePerHour: 0.1}]";

/// The folder of `--data` in the chart.
const DATA: &str = "/var/lib/prophet";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files and folders below a folder, by their paths in it.
fn tree(folder: &Path, below: &Path, found: &mut BTreeMap<PathBuf, fs::Metadata>) {
    for entry in fs::read_dir(folder.join(below)).unwrap().map(Result::unwrap) {
        let path = below.join(entry.file_name());
        let metadata = fs::symlink_metadata(entry.path()).unwrap();
        if metadata.is_dir() {
            tree(folder, &path, found);
        }
        found.insert(path, metadata);
    }
}

#[test]
fn the_root_file_system_has_what_the_controller_needs_and_no_shell() {
    let root = OwnRoot::build(None).unwrap();
    assert!(root.printed.contains("root file system: "), "{}", root.printed);
    // Written directly, because the output of a test that passes is not shown.
    std::io::stderr().write_all(root.printed.as_bytes()).unwrap();
    let mut found = BTreeMap::new();
    tree(root.path(), Path::new(""), &mut found);
    for path in [
        "etc/group",
        "etc/nsswitch.conf",
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "home/prophet",
        "tmp",
        "usr/bin/prophet",
        "usr/share/doc/prophet/LICENSE",
        "usr/share/doc/prophet/licences.txt",
        "usr/share/doc/prophet/rust-library.html",
        "var/lib/prophet",
    ] {
        assert!(found.contains_key(Path::new(path)), "{path} is missing in {:?}", found.keys());
    }
    let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    let authorities = read("etc/ssl/certs/ca-certificates.crt");
    assert!(authorities.matches("BEGIN CERTIFICATE").count() > 50, "too few authorities");
    assert!(read("etc/passwd").contains(&format!("prophet:x:{USER}:{USER}:")));

    let mut wrong = Vec::new();
    for (path, metadata) in &found {
        let mode = metadata.permissions().mode() & 0o7777;
        // A user that owns nothing can read everything, and write to /tmp only.
        let expected = match (metadata.is_dir(), path.starts_with("tmp")) {
            (_, true) => 0o1777,
            (true, false) => 0o755,
            (false, false) if mode & 0o111 != 0 => 0o755,
            (false, false) => 0o644,
        };
        let is_program = metadata.is_file() && mode & 0o111 != 0;
        let name = path.file_name().unwrap().to_string_lossy();
        let is_known = path == Path::new("usr/bin/prophet") || name.contains(".so");
        if mode != expected || metadata.is_symlink() || is_program && !is_known {
            wrong.push(format!("{mode:o} {}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "modes, links or programs that are not expected: {wrong:?}");
}

/// The arguments; the exit code; and a part of standard output or, after a failure, of standard
/// error.
const ROWS: [(&str, i32, &str); 9] = [
    ("--version", 0, concat!("prophet ", env!("CARGO_PKG_VERSION"))),
    ("run --help", 0, "--leader-elect"),
    ("crd", 0, "overprovisioningpolicies.prophet.dev"),
    ("model check", 0, "usable"),
    ("simulate --policies reactive,onnx:0.95", 0, "onnx:0.95"),
    ("trace generate --days 1 --out /jobs.csv", 1, "Read-only file system"),
    ("trace generate --days 1 --out /var/lib/prophet/jobs.csv", 0, ""),
    ("simulate --trace /var/lib/prophet/jobs.csv --policies reactive", 0, "reactive"),
    ("plan", 1, "failed to"),
];

#[test]
fn the_commands_run_in_the_root_of_the_image() {
    let root = OwnRoot::build(None).unwrap();
    if !root.may_start().unwrap() {
        return;
    }
    let volume = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (arguments, code, expected) in ROWS {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let mut command = root.prophet(&[(volume.path(), DATA)], &[], &arguments).unwrap();
        let output = command.output().unwrap();
        let stream = if code == 0 { &output.stdout } else { &output.stderr };
        let text = String::from_utf8_lossy(stream);
        if output.status.code() != Some(code) || !text.contains(expected) {
            wrong.push(format!("{arguments:?}: {output:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The newest libonnxruntime.so of the Python environment of `models/`, if it was built.
fn onnx_runtime() -> Option<PathBuf> {
    let environment = built::control_plane("..").ok()?.join("models-python/lib");
    let python = fs::read_dir(environment).ok()?.next()?.ok()?.path();
    let folder = fs::read_dir(python.join("site-packages/onnxruntime/capi")).ok()?;
    let files = folder.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|file| file.to_string_lossy().contains("libonnxruntime.so")).max()
}

#[test]
fn the_image_can_contain_onnx_runtime() {
    let Some(library) = onnx_runtime() else {
        let note = b"note: the image is not tested with ONNX Runtime: run make models-python\n";
        std::io::stderr().write_all(note).unwrap();
        return;
    };
    let root = OwnRoot::build(Some(&library)).unwrap();
    if !root.may_start().unwrap() {
        return;
    }
    let variable = "PROPHET_ONNX_RUNTIME=/usr/lib/libonnxruntime.so".to_owned();
    let output = root.prophet(&[], &[variable], &["model", "check"]).unwrap().output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("ONNX Runtime"), "{output:?}");
}

/// The controller, as in a pod of the chart: with the credentials of its service account, a
/// catalog, a volume for the history, and nothing else.
#[tokio::test]
async fn the_controller_runs_in_the_root_of_the_image() {
    let root = OwnRoot::build(None).unwrap();
    if !root.may_start().unwrap() {
        return;
    }
    let plane = ControlPlane::start().await.unwrap();
    Prophet::apply_chart(&plane).await.unwrap();
    plane.apply_yaml(&policy("batch", "{tick: 10s}")).await.unwrap();

    let account = plane.folder().join("service-account");
    fs::create_dir(&account).unwrap();
    let write = |name: &str, text: &str| fs::write(account.join(name), text).unwrap();
    write("token", &plane.token(NAMESPACE, "prophet").await.unwrap());
    write("namespace", NAMESPACE);
    let (server, certificate) = (plane.server(), plane.certificate());
    write("ca.crt", &fs::read_to_string(&certificate).unwrap());
    let (host, port) = server.trim_start_matches("https://").split_once(':').unwrap();
    let settings = plane.folder().join("settings");
    fs::create_dir(&settings).unwrap();
    fs::write(settings.join("catalog.yaml"), CATALOG).unwrap();
    let history = tempfile::tempdir().unwrap();
    let volumes = [
        (account.as_path(), ACCOUNT),
        (settings.as_path(), "/etc/prophet"),
        (history.path(), DATA),
    ];
    let service =
        [format!("KUBERNETES_SERVICE_HOST={host}"), format!("KUBERNETES_SERVICE_PORT={port}")];
    let with = |variables: &[&str], arguments: &[&str]| {
        let variables: Vec<String> =
            service.iter().cloned().chain(variables.iter().map(|&text| text.to_owned())).collect();
        root.prophet(&volumes, &variables, arguments).unwrap()
    };
    let command =
        |arguments: &[&str]| with(&["PROPHET_CATALOG=/etc/prophet/catalog.yaml"], arguments);

    let arguments = ["run", "--leader-elect", "--data=/var/lib/prophet", "--own-history"];
    let controller = Prophet::of_command(&plane, "image", command(&arguments)).await.unwrap();
    wait::until_true("the status of the policy", DEADLINE, async || {
        Ok(status(&plane, "batch").await?["conditions"].is_array())
    })
    .await
    .unwrap();
    let mut files = BTreeMap::new();
    wait::until_true("a line of the history", DEADLINE, async || {
        tree(history.path(), Path::new(""), &mut files);
        Ok(files.keys().any(|file| file.extension().is_some_and(|kind| kind == "jsonl")))
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}: {files:?}"));
    let address = format!("http://{}/readyz", controller.address());

    // The clients of AWS trust the authorities in the file of the image, and no others.
    let aws = format!("AWS_ENDPOINT_URL={server}");
    let aws = [&aws, "AWS_REGION=a", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"];
    let is_distrusted = || {
        let arguments = ["catalog", "--node-group-auto-discovery", "asg:tag=a"];
        let output = with(&aws, &arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "the API server is not AWS");
        assert!(error.contains("DescribeAutoScalingGroups"), "{error}");
        error.contains("certificate")
    };
    assert!(is_distrusted());
    let authorities = root.path().join("etc/ssl/certs/ca-certificates.crt");
    let text = [&authorities, &certificate].map(|file| fs::read_to_string(file).unwrap()).concat();
    fs::write(authorities, text).unwrap();
    assert!(!is_distrusted());

    for arguments in [&["plan"][..], &["explain"], &["catalog"], &["health", &address]] {
        let output = command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    controller.stop().await.unwrap();
}

/// Runs a script of `release/` in the folder of the repository.
fn script(name: &str, arguments: &[&Path]) -> Result<String, String> {
    let mut command = if Path::new(name).extension().is_some() {
        Command::new("python3")
    } else {
        Command::new("bash")
    };
    command.arg(repository().join("release").join(name)).args(arguments);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A program that runs this test's binary. It is small, so that it is packed quickly.
fn small_binary(folder: &Path) -> PathBuf {
    let path = folder.join("prophet");
    let prophet = tests::prophet(&[]);
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", Path::new(prophet.get_program()).display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_artefacts_are_complete_and_equal_when_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let binary = small_binary(folder.path());
    let helm = built::control_plane("bin/helm").unwrap();
    let make = |name: &str, tag: &str| {
        let out = folder.path().join(name);
        script("artefacts", &[&binary, &out, &helm, Path::new(tag)]).map(|_| out)
    };
    let version = env!("CARGO_PKG_VERSION");
    let [first, second] = ["first", "second"].map(|name| make(name, "").unwrap());
    let names = |folder: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let expected = [
        "SHA256SUMS".to_owned(),
        format!("prophet-{version}-crd.json"),
        format!("prophet-{version}-krew.yaml"),
        format!("prophet-{version}-licences.txt"),
        format!("prophet-{version}-x86_64-unknown-linux-gnu.tar.gz"),
        format!("prophet-{version}.cdx.json"),
        format!("prophet-{version}.tgz"),
    ];
    if cfg!(target_arch = "x86_64") {
        assert_eq!(names(&first), BTreeSet::from(expected));
    }
    for name in names(&first) {
        let [one, other] = [&first, &second].map(|folder| fs::read(folder.join(&name)).unwrap());
        assert!(one == other, "{name} differs between two runs");
    }
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&first);
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{checked:?}");

    // The packaged chart renders as the folder does.
    let packaged = first.join(format!("prophet-{version}.tgz"));
    let chart = helm::chart();
    let [packaged, chart] = [&packaged, &chart]
        .map(|path| helm::offline(&["template", "prophet", path.to_str().unwrap()]).unwrap());
    assert!(packaged == chart, "the packaged chart renders differently");

    let refused = make("tagged", "v99.0.0").unwrap_err();
    assert!(refused.contains("the tag is v99.0.0, and the version is"), "{refused}");
    let refused = script("artefacts", &[&binary, &first, &helm]).unwrap_err();
    assert!(refused.contains("is not empty"), "{refused}");
}

#[test]
fn the_bill_of_materials_and_the_licences_list_every_crate_of_the_binary() {
    let folder = tempfile::tempdir().unwrap();
    let [bill, again, licences] =
        ["prophet.cdx.json", "again.cdx.json", "licences.txt"].map(|name| folder.path().join(name));
    script("sbom.py", &[&bill]).unwrap();
    script("sbom.py", &[&again]).unwrap();
    script("licences.py", &[&licences]).unwrap();
    let [bill, again, licences] =
        [bill, again, licences].map(|file| fs::read_to_string(file).unwrap());
    assert_eq!(bill, again);

    let bill: Value = serde_json::from_str(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let scopes: BTreeMap<String, String> =
        components.iter().map(|of| (text(of, "name"), text(of, "scope"))).collect();
    // Crates of the binary; crates that only build it; and crates of features that nothing enables,
    // and of tests.
    for (names, scope) in [
        (
            &["kube", "aws-sdk-ec2", "rten", "parquet", "embedder", "demand", "rust-std"][..],
            Some("required"),
        ),
        (&["serde_derive", "cc", "syn"], Some("excluded")),
        (&["ring", "quinn", "proptest", "criterion", "tests"], None),
    ] {
        for name in names {
            assert_eq!(scopes.get(*name).map(String::as_str), scope, "{name}");
        }
    }
    let lock = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let mut missing = Vec::new();
    for of in components.iter().filter(|of| text(of, "purl").starts_with("pkg:cargo/")) {
        let (name, version) = (text(of, "name"), text(of, "version"));
        let digest = of["hashes"][0]["content"].as_str().unwrap_or("no digest");
        let listed = format!("{name} {version}: ");
        let is_linked = of["scope"] == "required";
        if !lock.contains(digest) || is_linked && !licences.contains(&listed) {
            missing.push(listed);
        }
    }
    assert!(missing.is_empty(), "without a digest or a licence: {missing:?}");
    let references: BTreeSet<String> = components.iter().map(|of| text(of, "bom-ref")).collect();
    for of in bill["dependencies"].as_array().unwrap() {
        for on in of["dependsOn"].as_array().unwrap() {
            assert!(references.contains(on.as_str().unwrap()), "{of} depends on {on}");
        }
    }
    // A crate with licence files, and two without: one under Apache-2.0, and one under MIT.
    for part in ["Copyright (c) Tokio Contributors", "kube 5.", "the authors of vsimd"] {
        assert!(licences.contains(part), "{part} is not in the licences");
    }
}

/// A file of the repository, and a text in it that names a version or a user, which another file
/// defines.
#[test]
fn the_recipes_name_the_versions_and_the_user_of_the_rest() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    let value = |path: &str, key: &str| {
        let text = read(path);
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
        line.trim_matches(|c: char| " =:\"".contains(c)).to_owned()
    };
    let rust = value("rust-toolchain.toml", "channel");
    let python = value("models/pyproject.toml", "python_version");
    let user = value("charts/prophet/values.yaml", "runAsUser");
    for (file, text) in [
        ("release/Containerfile", format!("library/rust:{rust}-bookworm")),
        ("release/Containerfile", format!("ENV RUSTUP_TOOLCHAIN={rust}\n")),
        ("release/Containerfile", format!("USER {user}:{user}\n")),
        ("release/rootfs", format!("user={user}\n")),
        ("models/Containerfile", format!("library/python:{python}-slim")),
        ("charts/prophet/Chart.yaml", format!("version: {}\n", env!("CARGO_PKG_VERSION"))),
        ("charts/prophet/Chart.yaml", format!("appVersion: {}\n", env!("CARGO_PKG_VERSION"))),
    ] {
        assert!(read(file).contains(&text), "{file} has no {text}");
    }
}
