//! The labels and taints of EKS managed node groups, from `eks:DescribeNodegroup`.
//!
//! A managed node group is an Auto Scaling group that has no node-template tags unless somebody
//! adds them, and cluster-autoscaler reads the same call. The call is one signed GET request, so
//! the client of all of EKS is not built for it.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_ec2::config::http::HttpRequest;
use aws_sdk_ec2::config::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::{Connector, proxy::ProxyConfig, tls};
use aws_smithy_runtime_api::client::http::{
    HttpConnector as _, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_types::byte_stream::ByteStream;
use aws_types::service_config::ServiceConfigKey;
use base::clock;
use serde::Deserialize;

use crate::causes::chain;
use crate::observe::Taint;

pub(super) const NODE_GROUP: &str = "eks:DescribeNodegroup";

/// Time limit of one call: 5 seconds. There is no retry, because the next refresh calls again.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a response: 1 MiB. A description is a few KiB.
const BYTES_MAX: usize = 1 << 20;

/// A managed node group: the names of its cluster and of the group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagedGroup {
    pub(super) cluster: String,
    pub(super) name: String,
}

impl ManagedGroup {
    /// The managed node group that the tags of an Auto Scaling group name, if any.
    pub(super) fn of<'a>(tags: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let (mut cluster, mut name) = (None, None);
        for (key, value) in tags {
            match key {
                "eks:cluster-name" => cluster = Some(value),
                "eks:nodegroup-name" => name = Some(value),
                _ => {}
            }
        }
        // Other characters would change the path of the request.
        let is_name = |text: &&str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
        };
        let (cluster, name) = (cluster.filter(is_name)?, name.filter(is_name)?);
        Some(Self { cluster: cluster.into(), name: name.into() })
    }
}

/// The labels and taints of the nodes of a managed node group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
}

/// A client of the one call.
#[derive(Clone, Debug)]
pub(super) struct Eks {
    connector: SharedHttpConnector,
    credentials: Option<SharedCredentialsProvider>,
    region: Option<String>,
    endpoint: Option<String>,
}

impl Eks {
    /// Creates a client with the credentials, the region and the endpoint of `config`.
    pub(super) fn new(config: &SdkConfig, connect_timeout: Duration) -> Self {
        let settings = HttpConnectorSettings::builder()
            .connect_timeout(connect_timeout)
            .read_timeout(TIMEOUT)
            .build();
        let mut connector = Connector::builder()
            .connector_settings(settings)
            .proxy_config(ProxyConfig::from_env())
            .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc));
        connector.set_sleep_impl(config.sleep_impl());
        let key = ServiceConfigKey::builder()
            .service_id("EKS")
            .profile("endpoint_url")
            .env("AWS_ENDPOINT_URL")
            .build();
        let own = key.ok().zip(config.service_config());
        let own = own.and_then(|(key, of_services)| of_services.load_config(key));
        let region = config.region().map(|region| region.as_ref().to_owned());
        Self {
            connector: SharedHttpConnector::new(connector.build()),
            credentials: config.credentials_provider(),
            endpoint: own.or_else(|| config.endpoint_url().map(str::to_owned)),
            region,
        }
    }

    /// Describes a managed node group.
    ///
    /// # Errors
    /// The reason in words, which does not change from one call to the next.
    pub(super) async fn describe(&self, group: &ManagedGroup) -> Result<Description, String> {
        let outcome = tokio::time::timeout(TIMEOUT, self.call(group)).await;
        outcome.unwrap_or_else(|_| Err(format!("no response within {TIMEOUT:?}")))
    }

    async fn call(&self, group: &ManagedGroup) -> Result<Description, String> {
        let region = self.region.as_deref().ok_or("no region is configured")?;
        let provider = self.credentials.as_ref().ok_or("no credentials are configured")?;
        let credentials = provider.provide_credentials().await;
        let identity = credentials.map_err(|error| error.to_string())?.into();
        let endpoint = self.endpoint.clone().unwrap_or_else(|| of_region(region));
        let endpoint = endpoint.trim_end_matches('/');
        let url = format!("{endpoint}/clusters/{}/node-groups/{}", group.cluster, group.name);
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name("eks")
            .time(clock::now().into())
            .settings(SigningSettings::default())
            .build();
        let params = params.map_err(|error| error.to_string())?.into();
        let body = SignableBody::Bytes(&[]);
        let signable = SignableRequest::new("GET", &url, std::iter::empty(), body);
        let signed = signable.and_then(|request| sign(request, &params));
        let (signature, _) = signed.map_err(|error| error.to_string())?.into_parts();
        let mut request = HttpRequest::get(&url).map_err(|error| error.to_string())?;
        for (name, value) in signature.headers() {
            let added = request.headers_mut().try_append(name.to_owned(), value.to_owned());
            added.map_err(|error| error.to_string())?;
        }
        let response = self.connector.call(request).await.map_err(|error| chain(&error))?;
        let status = response.status();
        let mut stream = ByteStream::new(response.into_body());
        let mut text = Vec::new();
        while let Some(part) = stream.next().await {
            text.extend_from_slice(&part.map_err(|error| error.to_string())?);
            if text.len() > BYTES_MAX {
                return Err(format!("the response has more than {BYTES_MAX} bytes"));
            }
        }
        if !status.is_success() {
            return Err(refusal(status.as_u16(), &text));
        }
        read(&text)
    }
}

/// The public endpoint of a region. Other partitions need `AWS_ENDPOINT_URL_EKS`.
fn of_region(region: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://eks.{region}.amazonaws.com{suffix}")
}

/// Why AWS refused a call, from the body of its response. The ID of the request, which differs
/// between calls, is left out.
fn refusal(status: u16, text: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        #[serde(alias = "Message")]
        message: String,
    }
    match serde_json::from_slice::<Refusal>(text) {
        Ok(Refusal { message }) => format!("status {status}: {message}"),
        Err(_) => format!("status {status}"),
    }
}

fn read(text: &[u8]) -> Result<Description, String> {
    #[derive(Deserialize)]
    struct Answer {
        nodegroup: NodeGroup,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NodeGroup {
        #[serde(default)]
        nodegroup_name: Option<String>,
        #[serde(default)]
        capacity_type: Option<String>,
        #[serde(default)]
        labels: Option<BTreeMap<String, String>>,
        #[serde(default)]
        taints: Option<Vec<GroupTaint>>,
    }
    #[derive(Deserialize)]
    struct GroupTaint {
        key: String,
        #[serde(default)]
        value: Option<String>,
        effect: String,
    }
    let answer: Answer = serde_json::from_slice(text)
        .map_err(|error| format!("the response is not a description of a node group: {error}"))?;
    let NodeGroup { nodegroup_name, capacity_type, labels, taints } = answer.nodegroup;
    let mut labels = labels.unwrap_or_default();
    // EKS sets these two labels on every node, beside those of the node group.
    labels.extend(nodegroup_name.map(|name| ("eks.amazonaws.com/nodegroup".to_owned(), name)));
    labels.extend(capacity_type.map(|kind| ("eks.amazonaws.com/capacityType".to_owned(), kind)));
    let taint = |GroupTaint { key, value, effect }: GroupTaint| {
        let effect = match effect.as_str() {
            "NO_SCHEDULE" => "NoSchedule",
            "PREFER_NO_SCHEDULE" => "PreferNoSchedule",
            "NO_EXECUTE" => "NoExecute",
            other => return Err(format!("taint {key}: its effect {other:?} is unknown")),
        };
        Ok(Taint { key, value: value.unwrap_or_default(), effect: effect.into() })
    };
    let taints = taints.unwrap_or_default().into_iter().map(taint);
    let mut taints = taints.collect::<Result<Vec<Taint>, String>>()?;
    taints.sort();
    Ok(Description { labels, taints })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the managed node group of these tags, as CLUSTER/NAME.
    #[track_caller]
    fn check_tags(tags: &[(&str, &str)], expected: Option<&str>) {
        let found = ManagedGroup::of(tags.iter().copied());
        let found = found.map(|ManagedGroup { cluster, name }| format!("{cluster}/{name}"));
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn tags_name_the_managed_node_group() {
        let cluster = ("eks:cluster-name", "main");
        check_tags(&[], None);
        check_tags(&[cluster], None);
        check_tags(&[cluster, ("eks:nodegroup-name", "gpu_a-1.x")], Some("main/gpu_a-1.x"));
        // A name that could not be a part of the path.
        check_tags(&[cluster, ("eks:nodegroup-name", "../x")], None);
        check_tags(&[cluster, ("eks:nodegroup-name", "a b")], None);
        check_tags(&[cluster, ("eks:nodegroup-name", "")], None);
    }

    /// Checks a response: the labels and taints as kubectl prints them, or the error.
    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], &str>) {
        match (read(text.as_bytes()), expected) {
            (Ok(Description { labels, taints }), Ok(expected)) => {
                let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
                let found: Vec<String> =
                    labels.chain(taints.iter().map(ToString::to_string)).collect();
                assert_eq!(found, expected);
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_response_has_labels_and_taints() {
        check(
            r#"{"nodegroup": {"nodegroupName": "a", "capacityType": "SPOT"}}"#,
            Ok(&["eks.amazonaws.com/capacityType=SPOT", "eks.amazonaws.com/nodegroup=a"]),
        );
        check(r#"{"nodegroup": {"labels": null, "taints": null}}"#, Ok(&[]));
        check(
            r#"{"nodegroup": {"labels": {"team": "blue"}, "taints": [
                {"key": "web", "effect": "NO_EXECUTE"},
                {"key": "gpu", "value": "yes", "effect": "NO_SCHEDULE"}]}}"#,
            Ok(&["team=blue", "gpu=yes:NoSchedule", "web:NoExecute"]),
        );
        check(
            r#"{"nodegroup": {"taints": [{"key": "web", "effect": "NEVER"}]}}"#,
            Err("taint web: its effect \"NEVER\" is unknown"),
        );
        check("{}", Err("not a description of a node group: missing field `nodegroup`"));
        check("<html>", Err("not a description of a node group"));
    }

    #[test]
    fn a_refusal_has_the_message_of_aws() {
        let denied =
            br#"{"message": "User x is not authorized to perform: eks:DescribeNodegroup"}"#;
        let expected = "status 403: User x is not authorized to perform: eks:DescribeNodegroup";
        assert_eq!(refusal(403, denied), expected);
        assert_eq!(
            refusal(404, br#"{"Message": "No node group found"}"#),
            "status 404: No node group found"
        );
        assert_eq!(refusal(502, b"<html>"), "status 502");
    }

    #[test]
    fn the_endpoint_follows_the_region() {
        assert_eq!(of_region("eu-central-1"), "https://eks.eu-central-1.amazonaws.com");
        assert_eq!(of_region("cn-north-1"), "https://eks.cn-north-1.amazonaws.com.cn");
    }
}
