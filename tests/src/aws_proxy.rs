//! A proxy in front of the emulated AWS, which observes each call before it is answered.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// One call of a client.
#[derive(Debug)]
pub struct Call {
    /// The IAM action, such as `autoscaling:SetDesiredCapacity`.
    pub action: String,
    /// The head of the request, without the final empty line.
    head: String,
    body: String,
    upstream: String,
}

impl Call {
    /// A parameter of the form data, as it is encoded there. Names of groups and IDs of instances
    /// are encoded as themselves.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut fields = self.body.split('&').filter_map(|field| field.split_once('='));
        fields.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The body of the request.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Sends the call to the emulator; returns the whole response.
    ///
    /// # Errors
    /// The emulator does not respond.
    pub async fn forward(&self) -> Result<Vec<u8>> {
        let mut server = TcpStream::connect(&self.upstream).await?;
        let head = self.head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        server.write_all(format!("{head}\r\n\r\n{}", self.body).as_bytes()).await?;
        let mut response = Vec::new();
        server.read_to_end(&mut response).await?;
        Ok(response)
    }
}

/// Serves calls to the emulator at `endpoint`, a URL, until it is dropped. `answer` returns the
/// whole response of a call, for example that of [`Call::forward`].
///
/// # Errors
/// The URL is not an http URL, or a connection cannot be accepted.
pub async fn serve<F, Answer>(listener: TcpListener, endpoint: &str, answer: F) -> Result<()>
where
    F: Fn(Call) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Vec<u8>>> + Send + 'static,
{
    let upstream = endpoint.strip_prefix("http://").context("not an http endpoint")?.to_owned();
    let answer = Arc::new(answer);
    loop {
        let (mut client, _) = listener.accept().await?;
        let (upstream, answer) = (upstream.clone(), Arc::clone(&answer));
        tokio::spawn(async move {
            // An error means that the client has closed its connection, which no test checks.
            let Ok((head, body)) = request(&mut client).await else { return };
            let Ok(action) = action(&head, &body) else { return };
            let Ok(response) = answer(Call { action, head, body, upstream }).await else { return };
            let _ = client.write_all(&response).await;
        });
    }
}

/// A whole response, after which the connection is closed.
pub fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    (head + body).into_bytes()
}

/// The action that lists capacity reservations, which the emulator does not have.
pub const RESERVATIONS: &str = "ec2:DescribeCapacityReservations";

/// The action that lists the instances in them.
pub const INSTANCES: &str = "ec2:DescribeInstances";

/// The response to [`RESERVATIONS`], in the documented form: a reservation and a Capacity Block of
/// m5.xlarge in the zone us-east-1a, of so many instances each, of which so many are not used.
pub fn reservations(total: u64, available: u64) -> Vec<u8> {
    let item = |id: &str, more: &str| {
        format!(
            "<item><capacityReservationId>{id}</capacityReservationId><ownerId>123456789012</ownerId>\
             <instanceType>m5.xlarge</instanceType><instancePlatform>Linux/UNIX</instancePlatform>\
             <availabilityZone>us-east-1a</availabilityZone><tenancy>default</tenancy>\
             <totalInstanceCount>{total}</totalInstanceCount>\
             <availableInstanceCount>{available}</availableInstanceCount><state>active</state>\
             <tagSet><item><key>team</key><value>batch</value></item></tagSet>{more}</item>"
        )
    };
    let open = "<endDateType>unlimited</endDateType><instanceMatchCriteria>open</instanceMatchCriteria>\
        <reservationType>default</reservationType>";
    let block = "<endDate>2030-01-01T11:30:00.000Z</endDate><endDateType>limited</endDateType>\
        <instanceMatchCriteria>targeted</instanceMatchCriteria><reservationType>capacity-block</reservationType>";
    let items = item("cr-open", open) + &item("cr-block", block);
    of_ec2("DescribeCapacityReservationsResponse", "capacityReservationSet", &items)
}

/// The response to [`INSTANCES`], in the documented form: these instances, which use the
/// reservation
/// `cr-open`.
pub fn instances(ids: &[String]) -> Vec<u8> {
    let item = |id: &String| {
        format!(
            "<item><instanceId>{id}</instanceId><capacityReservationId>cr-open</capacityReservationId></item>"
        )
    };
    let items: String = ids.iter().map(item).collect();
    let items = format!("<item><instancesSet>{items}</instancesSet></item>");
    of_ec2("DescribeInstancesResponse", "reservationSet", &items)
}

fn of_ec2(name: &str, set: &str, items: &str) -> Vec<u8> {
    let body = format!(
        r#"<{name} xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<requestId>1</requestId><{set}>{items}</{set}></{name}>"#
    );
    response("200 OK", "text/xml", &body)
}

/// Reads the only request of a connection: its head without the final empty line, and its body.
async fn request(client: &mut TcpStream) -> Result<(String, String)> {
    let (mut text, mut part) = (String::new(), [0; 8_192]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then_some(value.trim())
            });
            if body.len() >= length.unwrap_or("0").parse()? {
                return Ok((head.to_owned(), body.to_owned()));
            }
        }
        let read = client.read(&mut part).await?;
        ensure!(read > 0, "the client closed the connection");
        text += std::str::from_utf8(&part[..read])?;
    }
}

/// The IAM action of a request. The service is in the scope of the signature, the call in the form
/// data, or in a header of the Price List service, or, of EKS, in the path.
fn action(head: &str, body: &str) -> Result<String> {
    let scope = head.split_once("/aws4_request").context("the call is not signed")?.0;
    let service = scope.rsplit('/').next().context("no service")?;
    let line = head.lines().next().unwrap_or_default();
    let target = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("x-amz-target").then(|| value.rsplit('.').next())?
    });
    let call = match body.split('&').find_map(|field| field.strip_prefix("Action=")) {
        Some(call) => call,
        None if line.starts_with("GET /clusters/") && line.contains("/node-groups/") => {
            "DescribeNodegroup"
        }
        None => target.unwrap_or(line),
    };
    Ok(format!("{service}:{call}"))
}
