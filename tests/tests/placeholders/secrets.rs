//! What the log of the controller must never contain.

use std::fs;

use serde_json::json;
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{DEADLINE, DISCOVERY, Plan};

/// Parts of signed requests and of presigned addresses.
const SIGNED: [&str; 5] =
    ["X-Amz-Signature=", "X-Amz-Credential=", "X-Amz-Security-Token=", "Signature=", "Bearer ey"];

/// The controller reads groups, EKS and its history in S3 with credentials of AWS, and the cluster
/// with a token. Its log has the level `debug` of all libraries.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_no_token_no_key_and_no_signature() {
    let group = NodeGroup::new("small", "m5.xlarge")
        .tag("eks:cluster-name", "main")
        .tag("eks:nodegroup-name", "blue");
    let mut world = Plan::of([group]).start_alone().await;
    world.moto.create_managed_group("main", "blue", json!({}), json!([])).await.unwrap();
    world.moto.create_bucket("logs").await.unwrap();
    Prophet::apply_chart(&world.plane).await.unwrap();
    let secrets = [
        ("AWS_ACCESS_KEY_ID", "AKIATHELOGMUSTNOTHAVE1"),
        ("AWS_SECRET_ACCESS_KEY", "secret/the-log-must-not-have-2"),
        ("AWS_SESSION_TOKEN", "session-the-log-must-not-have-3"),
    ];
    let mut environment = world.moto.environment().to_vec();
    environment.extend(secrets.map(|(name, value)| (name, value.to_owned())));
    environment.push(("PROPHET_LOG", "debug".to_owned()));
    let arguments = [DISCOVERY, "--data=s3://logs/prophet"];
    world.prophet = Some(Prophet::start(&world.plane, &arguments, &environment).await.unwrap());
    let spec =
        "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1]]}}}";
    world.apply(&policy("batch", spec)).await;
    world.wait_for_status("batch", "a target", |status| status["target"] == 1).await;
    // The history has lines, so all sources were used.
    wait::until_true("the history", DEADLINE, async || {
        let answer = world.moto.list_bucket("logs").await?;
        Ok(answer.contains("policy=prophet.batch"))
    })
    .await
    .unwrap();
    // A failure logs the error of the request, too.
    world.moto.process().signal("STOP").unwrap();
    wait::until_true("a failed read of the groups", DEADLINE * 2, async || {
        Ok(world.prophet.as_ref().unwrap().log()?.contains("catalog not refreshed"))
    })
    .await
    .unwrap();
    world.moto.process().signal("CONT").unwrap();

    let log = world.prophet.as_ref().unwrap().log().unwrap();
    assert!(log.lines().count() > 100, "{log}");
    let kubeconfig = world.plane.folder().join(format!("{NAMESPACE}-prophet.kubeconfig"));
    let kubeconfig: serde_json::Value =
        serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    let (_, signature) = token.rsplit_once('.').unwrap();
    let values = secrets.map(|(_, value)| value);
    let mut found = Vec::new();
    for secret in values.iter().chain(&SIGNED).chain([&token, &signature]) {
        let line = log.lines().find(|line| line.contains(secret));
        found.extend(line.map(|line| format!("{secret} is in {line:.300}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
