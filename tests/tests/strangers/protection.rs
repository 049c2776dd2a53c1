//! TLS, and the tokens of requests.

use std::fs;
use std::path::{Path, PathBuf};

use tests::control_plane::{ControlPlane, Options};
use tests::installed::{NAMESPACE, Prophet};
use tests::ports::Port;
use tests::process::Process;
use tests::{https, prophet, run, wait};

use super::{Controller, DEADLINE};

/// The path of a file of a self-signed certificate of 127.0.0.1, such as `first.crt`.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn install(folder: &Path, name: &str) {
    for kind in ["crt", "key"] {
        fs::copy(data(&format!("{name}.{kind}")), folder.join(format!("tls.{kind}"))).unwrap();
    }
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_used_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), "first");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let log = path("log.csv");
    fs::write(&log, "job,submit,runtime,cpu_millis,memory_bytes\na,0,60,1000,1000000\n").unwrap();
    let arguments = ["--tls-cert", &certificate, "--tls-key", &key];
    let controller = Controller::start_with(folder, &arguments).await;
    let port = controller.port.number();
    let health = async |name: &str| https::get(port, "/healthz", &data(name), None).await;
    assert_eq!(health("first.crt").await.unwrap(), (200, "alive".to_owned()));
    health("second.crt").await.unwrap_err();
    let address = format!("https://127.0.0.1:{port}/healthz");
    assert_eq!(run(&["health", &address]), (0, "alive\n".into(), String::new()));

    // `rightsize` verifies the certificate of a Prometheus. This server is none.
    let server = format!("https://127.0.0.1:{port}");
    let asked = |certificates: Option<PathBuf>| {
        let mut command = prophet(&["rightsize", "--prometheus", &server, "--trace", &log]);
        command.envs(certificates.map(|path| ("SSL_CERT_FILE", path)));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = asked(None);
    assert!(code == Some(1) && error.contains("certificate"), "{code:?} {error}");
    let (code, error) = asked(Some(data("first.crt")));
    assert!(code == Some(1) && error.contains("status 404"), "{code:?} {error}");

    // A request without TLS gets no page, and keeps out nobody.
    assert!(!controller.get_bytes("/metrics").starts_with(b"HTTP"));
    // A key that is not the certificate's is not used.
    fs::copy(data("second.key"), controller.folder.path().join("tls.key")).unwrap();
    wait::until_true("the warning", DEADLINE, async || {
        Ok(controller.process.log()?.contains("the new certificate is not used"))
    })
    .await
    .unwrap();
    assert_eq!(health("first.crt").await.unwrap().0, 200);
    install(controller.folder.path(), "second");
    wait::until_true("the new certificate", DEADLINE, async || {
        Ok(health("second.crt").await.is_ok())
    })
    .await
    .unwrap();
    health("first.crt").await.unwrap_err();
}

/// A role, and its binding to a service account.
const READER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: stranger, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: person, namespace: default}
";

#[tokio::test]
async fn only_tokens_whose_user_may_get_a_path_read_it() {
    let options = Options { kwok: false, audited: true, ..Options::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    plane.apply_yaml(READER).await.unwrap();
    let values = [
        r#"tls.secretName="web""#,
        r#"authentication={"enabled":true,"readers":[{"kind":"ServiceAccount","name":"person","namespace":"default"}]}"#,
    ];
    Prophet::apply_chart_with(&plane, &values).await.unwrap();
    let port = Port::free().unwrap();
    // The self-signed certificate of the API server is one of 127.0.0.1.
    let certificate = plane.certificate();
    let key = certificate.with_extension("key");
    let mut command = prophet(&["run", "--namespace", NAMESPACE, "--authenticate"]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.arg("--tls-cert").arg(&certificate).arg("--tls-key").arg(&key);
    let kubeconfig = plane.kubeconfig_for(NAMESPACE, "prophet").await.unwrap();
    command.env("KUBECONFIG", kubeconfig).env("PROPHET_LOG", "debug");
    let mut process = Process::start("prophet", &command, plane.folder()).unwrap();
    let get = async |path: &str, token: Option<&str>| {
        https::get(port.number(), path, &certificate, token).await
    };
    process
        .wait_until("the controller to be ready", DEADLINE, async || {
            Ok(get("/readyz", None).await.is_ok_and(|(status, _)| status == 200))
        })
        .await
        .unwrap();

    let token = async |name: &str| plane.token("default", name).await.unwrap();
    let (stranger, scraper, person) =
        (token("stranger").await, token("scraper").await, token("person").await);
    let check = async |path: &str, token: Option<&str>, status: u16, part: &str| {
        let (found, text) = get(path, token).await.unwrap();
        assert!(found == status && text.contains(part), "{path}: {found} {text}");
    };
    for path in ["/metrics", "/", "/events", "/none"] {
        check(path, None, 401, "a token is required").await;
        check(path, Some("made-up"), 401, "the token is not valid").await;
        check(path, Some(&stranger), 403, "needs a ClusterRole").await;
    }
    check("/healthz", None, 200, "alive").await;
    // The authorizer receives new roles through a watch, and refusals are kept for ten seconds.
    wait::until_true("the role", DEADLINE, async || {
        Ok(get("/metrics", Some(&scraper)).await?.0 == 200)
    })
    .await
    .unwrap();
    check("/metrics", Some(&scraper), 200, "# EOF").await;
    check("/", Some(&scraper), 403, "needs a ClusterRole").await;
    wait::until_true("the role of the chart", DEADLINE, async || {
        Ok(get("/", Some(&person)).await?.0 == 200)
    })
    .await
    .unwrap();
    check("/", Some(&person), 200, "</html>").await;
    check("/live.js", Some(&person), 200, "EventSource").await;

    // Scrapes are reviewed once a minute.
    let reviews = || {
        let log = plane.audit_log().unwrap();
        log.iter().filter(|entry| entry.resource == "tokenreviews").count()
    };
    let before = reviews();
    for _ in 0..20 {
        check("/metrics", Some(&scraper), 200, "# EOF").await;
    }
    assert!(reviews() <= before + 1, "{} {before}", reviews());
    let log = process.log().unwrap();
    for secret in [&stranger, &scraper, &person] {
        assert!(!log.contains(secret.as_str()), "the log has a token");
    }
    assert_eq!(process.terminate(DEADLINE).await.unwrap().code(), Some(0));
    // The roles of the chart suffice: nothing of the service account was denied.
    let denied = plane.audit_log().unwrap();
    let denied: Vec<_> = denied
        .iter()
        .filter(|entry| entry.user == "system:serviceaccount:prophet:prophet" && entry.code == 403)
        .collect();
    assert!(denied.is_empty(), "{denied:?}");
}
