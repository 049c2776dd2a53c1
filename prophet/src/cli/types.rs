//! `prophet catalog types`: AWS's instance types, with what a node has for pods and what it costs.

use std::fmt::Write as _;
use std::path::PathBuf;

#[cfg(feature = "aws")]
use anyhow::Context as _;
use embedder::CapacityType;
use instances::{
    AwsPrices, Bought, InstanceType, Price, PriceRules, PriceSource, instance_type, instance_types,
};
use serde_json::{Value, json};

use super::output::OutputFormat;
use super::{input, output};

const EXAMPLES: &str = "\
Examples:
  prophet catalog types m7i g6.xlarge p5.48xlarge
  prophet catalog types p5 --region us-gov-west-1
  prophet catalog types m7i --spot --output json
  prophet catalog types m7i --region eu-central-1 --aws-prices

CPU and memory are what a node has for pods before DaemonSets: less what the hypervisor, the kubelet and the system keep.
Live nodes of a cluster overrule them. Prices that the table does not have for a region are those of us-east-1.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Instance types or families
    #[arg(required = true, value_name = "TYPE", value_parser = input::type_or_family)]
    names: Vec<String>,
    /// The region of the prices
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    region: String,
    /// Show spot instances
    #[arg(long)]
    spot: bool,
    /// Read the prices from AWS, with the credentials of the environment: on-demand prices from the
    /// Price List service, spot prices from their history
    #[cfg(feature = "aws")]
    #[arg(long)]
    aws_prices: bool,
    /// What you pay for instances, as YAML: prices by instance type, or a percentage
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let rules = args.prices.as_deref().map(input::prices).transpose()?.unwrap_or_default();
    let mut types: Vec<&InstanceType> = Vec::new();
    for name in &args.names {
        let mut those: Vec<_> = match instance_type(name) {
            Some(known) => vec![known],
            None => instance_types().iter().filter(|known| known.family() == name).collect(),
        };
        those.sort_by_key(|known| (known.capacity(), known.name));
        types.extend(those);
    }
    let read = args.read(&types)?;
    let priced = types.into_iter().map(|known| (known, args.price(&rules, read.as_ref(), known)));
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            let all: Vec<Value> = priced.map(|(known, price)| as_json(known, price)).collect();
            output::print_document(
                args.output,
                &json!({"region": args.region, "spot": args.spot, "types": all}),
            )
        }
        OutputFormat::Table => {
            let mut text = format!(
                "{:<20} {:<5} {:>21} {:>7} {:>10} {:>5} {:>12}  price from\n",
                "type", "arch", "accelerators", "CPU", "memory GiB", "pods", "dollars/hour"
            );
            priced.for_each(|(known, price)| row(known, price, &mut text));
            output::print(&text)
        }
    }
}

impl Args {
    /// The prices that AWS gives for the types. `None` if they are not asked for.
    #[cfg(feature = "aws")]
    fn read(&self, types: &[&InstanceType]) -> anyhow::Result<Option<AwsPrices>> {
        use controller::catalog::aws::{PriceReader, clients};
        if !self.aws_prices {
            return Ok(None);
        }
        let names = types.iter().map(|known| known.name.to_owned()).collect();
        super::runtime::of_this_thread()?.block_on(async {
            let reader = PriceReader::new(clients(Some(&self.region), None).await);
            let reader = reader.context("no region")?;
            let mut prices = reader.none();
            let failures = reader.refresh(&mut prices, &names, base::clock::now()).await;
            // The column of the source shows which price comes from elsewhere.
            for failure in failures {
                eprintln!("note: {failure}");
            }
            Ok(Some(prices))
        })
    }

    #[cfg(not(feature = "aws"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "other builds read prices")]
    fn read(&self, _: &[&InstanceType]) -> anyhow::Result<Option<AwsPrices>> {
        Ok(None)
    }

    /// The price of an instance. `None` if it is unknown.
    fn price(
        &self,
        rules: &PriceRules,
        read: Option<&AwsPrices>,
        known: &InstanceType,
    ) -> Option<Price> {
        let capacity_type = if self.spot { CapacityType::Spot } else { CapacityType::OnDemand };
        let price = rules.price(&Bought {
            instance_type: known.name,
            capacity_type,
            region: Some(&self.region),
            zone: None,
            has: known.allocatable(),
            described: None,
            read,
            overlay: None,
        });
        price.source.is_known().then_some(price)
    }
}

/// The date of a price: that of the table, or today, when those of AWS are read. `None` for what
/// the operator gives.
fn date(source: PriceSource) -> Option<String> {
    match source {
        _ if source.is_listed() => Some(instances::prices_date().to_owned()),
        _ if source.is_of_aws() => Some(base::clock::now().date_naive().to_string()),
        _ => None,
    }
}

fn as_json(known: &InstanceType, price: Option<Price>) -> Value {
    let has = known.allocatable();
    json!({
        "name": known.name,
        "architecture": known.architecture,
        "vcpus": known.vcpus,
        "memory_mib": known.memory_mib,
        "accelerators": known.accelerators.map(|those| json!({
            "maker": those.maker, "name": those.name, "count": those.count,
            "memory_mib": those.memory_mib, "resource": those.kind().map(|kind| kind.to_string()),
        })),
        "efa_interfaces": known.efa,
        "local_disk_gb": known.disk_gb,
        "allocatable": {
            "accelerators": has.accelerators, "cpu_millis": has.cpu_millis,
            "memory_bytes": has.memory_bytes, "pods": has.pods,
        },
        "dollars_per_hour": price.map(|price| price.hourly.dollars()),
        "price_source": price.map(|price| price.source),
        "price_date": price.and_then(|price| date(price.source)),
    })
}

fn row(known: &InstanceType, price: Option<Price>, text: &mut String) {
    let has = known.allocatable();
    let accelerators = known.accelerators.map_or(String::from("-"), |those| {
        format!("{} {} {}", those.count, those.maker, those.name)
    });
    let dollars = price.map_or("unknown".into(), |price| format!("{:.4}", price.hourly.dollars()));
    let source = price.map_or("-".into(), |price| price.source.in_words());
    let _ = writeln!(
        text,
        "{:<20} {:<5} {accelerators:>21} {:>7.2} {:>10.1} {:>5} {dollars:>12}  {source}",
        known.name,
        known.architecture,
        has.cpu_millis as f64 / 1_000.0,
        has.memory_bytes as f64 / f64::from(1 << 30),
        has.pods,
    );
}
