//! A proxy in front of the emulator. It records the IAM action of each call, and does what the
//! emulator does not support: it can throttle the first calls or deny actions, lists instance types
//! for attributes and capacity reservations, and stands in for the Price List service.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use serde_json::{Value, json};
use tests::aws_proxy::{self, Call, INSTANCES, RESERVATIONS, instances, reservations, response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const THROTTLED: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code>\
    <Message>Rate exceeded</Message></Error><RequestId>1</RequestId></ErrorResponse>";

const DENIED_BY_AUTO_SCALING: &str = "<ErrorResponse><Error><Type>Sender</Type>\
    <Code>AccessDenied</Code><Message>You are not authorized</Message></Error>\
    <RequestId>1</RequestId></ErrorResponse>";

const DENIED: &str = "<Response><Errors><Error><Code>UnauthorizedOperation</Code>\
    <Message>You are not authorized</Message></Error></Errors></Response>";

/// A running proxy, stopped on drop.
pub(crate) struct Proxy {
    endpoint: String,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the endpoint. It throttles the first `throttled` calls.
    pub(crate) async fn start(endpoint: &str, throttled: usize) -> Result<Self> {
        Self::denying(endpoint, throttled, &[]).await
    }

    /// Starts a proxy that also denies these actions.
    pub(crate) async fn denying(
        endpoint: &str,
        throttled: usize,
        denied: &'static [&'static str],
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (upstream, endpoint) =
            (endpoint.to_owned(), format!("http://{}", listener.local_addr()?));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (calls, recorded) = (AtomicUsize::new(0), Arc::clone(&seen));
        let answer = move |call: Call| {
            recorded.lock().unwrap().push(call.action.clone());
            let throttle = calls.fetch_add(1, Ordering::Relaxed) < throttled;
            async move {
                let is_denied = denied.contains(&call.action.as_str());
                match call.action.as_str() {
                    _ if throttle => Ok(response("400 Bad Request", "text/xml", THROTTLED)),
                    PRODUCTS if is_denied => {
                        let error =
                            json!({"__type": "AccessDeniedException", "Message": "not authorized"});
                        Ok(response("400 Bad Request", JSON, &error.to_string()))
                    }
                    action if is_denied && action.starts_with("autoscaling:") => {
                        Ok(response("403 Forbidden", "text/xml", DENIED_BY_AUTO_SCALING))
                    }
                    _ if is_denied => Ok(response("403 Forbidden", "text/xml", DENIED)),
                    "autoscaling:DescribeScalingActivities" => {
                        Ok(response("200 OK", "text/xml", &activities()))
                    }
                    "autoscaling:DescribeWarmPool" => Ok(response("200 OK", "text/xml", &pool())),
                    RESERVATIONS => Ok(reservations(6, 2)),
                    INSTANCES => Ok(instances(&["i-a".to_owned(), "i-b".to_owned()])),
                    TYPES_FOR => Ok(response("200 OK", "text/xml", &listed(&call))),
                    PRODUCTS => Ok(response("200 OK", JSON, &products(call.body())?)),
                    _ => call.forward().await,
                }
            }
        };
        let task = tokio::spawn(async move {
            let _ = aws_proxy::serve(listener, &upstream, answer).await;
        });
        Ok(Self { endpoint, seen, task })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Takes the actions of the calls since the last call of this function, in order.
    pub(crate) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const TYPES_FOR: &str = "ec2:GetInstanceTypesFromInstanceRequirements";
const PRODUCTS: &str = "pricing:GetProducts";
const JSON: &str = "application/x-amz-json-1.1";

/// The instance types that are listed for attributes, by the least number of vCPUs.
const LISTED: [(&str, &[&str]); 4] = [
    ("2", &["m5.large"]),
    ("3", &["m5.2xlarge", "m5.xlarge", "m5a.xlarge"]),
    ("4", &["m5.xlarge", "m5a.xlarge"]),
    ("48", &["m5.12xlarge", "g5.48xlarge"]),
];

/// The instance types for attributes and the architecture of Intel, in the documented form.
fn listed(call: &Call) -> String {
    let least = call.parameter("InstanceRequirements.VCpuCount.Min").unwrap_or_default();
    let is_intel = call.parameter("ArchitectureType.1") == Some("x86_64");
    let is_asked = |(vcpus, _): &&(&str, &[&str])| is_intel && *vcpus == least;
    let types = LISTED.iter().find(is_asked).map_or(&[][..], |(_, types)| *types);
    let item = |name: &&str| format!("<item><instanceType>{name}</instanceType></item>");
    let items: String = types.iter().map(item).collect();
    format!(
        r#"<GetInstanceTypesFromInstanceRequirementsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<requestId>1</requestId><instanceTypeSet>{items}</instanceTypeSet>
</GetInstanceTypesFromInstanceRequirementsResponse>"#
    )
}

/// What the stand-in sells: the region, the instance type, and the dollars for an hour.
const SOLD: [(&str, &str, &str); 3] = [
    ("us-east-1", "m5.xlarge", "0.1900000000"),
    ("eu-central-1", "m5.xlarge", "0.2300000000"),
    ("eu-central-1", "m7i.xlarge", "0.2415000000"),
];

/// The answer of the Price List service to a request for products, in the documented form.
fn products(request: &str) -> Result<String> {
    let request: Value = serde_json::from_str(request)?;
    let filters = request["Filters"].as_array().cloned().unwrap_or_default();
    let value = |field: &str, kind: &str| {
        let filter = filters.iter().find(|one| one["Field"] == field && one["Type"] == kind);
        filter.and_then(|one| one["Value"].as_str()).unwrap_or_default().to_owned()
    };
    let (region, types) = (value("regionCode", "TERM_MATCH"), value("instanceType", "ANY_OF"));
    let linux = value("operatingSystem", "TERM_MATCH") == "Linux";
    let asked = SOLD
        .iter()
        .filter(|(of, name, _)| linux && *of == region && types.split(',').any(|one| one == *name));
    let products = asked.map(|(of, name, dollars)| {
        json!({
            "product": {
                "productFamily": "Compute Instance",
                "attributes": {"instanceType": name, "regionCode": of, "operatingSystem": "Linux"},
                "sku": "S",
            },
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {"S.T": {"sku": "S", "priceDimensions": {"S.T.R": {
                "unit": "Hrs", "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": dollars},
            }}}}},
            "version": "20261101000000",
        })
        .to_string()
    });
    let list: Vec<String> = products.collect();
    Ok(json!({"FormatVersion": "aws_v1", "PriceList": list}).to_string())
}

/// The scaling activities of the account, in the documented form: a launch that failed just now.
fn activities() -> String {
    let now = base::clock::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    format!(
        r#"<DescribeScalingActivitiesResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
<DescribeScalingActivitiesResult><Activities><member>
<ActivityId>1</ActivityId><AutoScalingGroupName>no-capacity</AutoScalingGroupName>
<Description>Launching a new EC2 instance.  Status Reason: We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you requested.</Description>
<Cause>At {now} a difference between desired and actual capacity was found.</Cause>
<StartTime>{now}</StartTime><EndTime>{now}</EndTime>
<StatusCode>Failed</StatusCode><Progress>100</Progress>
</member></Activities></DescribeScalingActivitiesResult>
<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></DescribeScalingActivitiesResponse>"#
    )
}

/// A warm pool with an instance in each of some states, in the documented form. The emulator sets
/// pools, and prepares no instances.
fn pool() -> String {
    let states = ["Warmed:Stopped", "Warmed:Stopped", "Warmed:Pending:Wait", "Warmed:Terminating"];
    let member = |(number, state): (usize, &str)| {
        format!(
            "<member><InstanceId>i-{number}</InstanceId><LifecycleState>{state}</LifecycleState>\
             <AvailabilityZone>us-east-1a</AvailabilityZone><HealthStatus>Healthy</HealthStatus></member>"
        )
    };
    let members: String = states.into_iter().enumerate().map(member).collect();
    format!(
        r#"<DescribeWarmPoolResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
<DescribeWarmPoolResult><Instances>{members}</Instances></DescribeWarmPoolResult>
<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></DescribeWarmPoolResponse>"#
    )
}
