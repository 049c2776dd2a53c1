//! The plan and the results in their place.

use anyhow::Context as _;
use fleet::{Plan, Shard, ShardResult};
use history::Place;

/// The place of the plan and of the results.
#[derive(clap::Args)]
pub(super) struct PlaceArgs {
    /// The place of the plan and of the results: a folder, or `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "PLACE")]
    pub(super) results: String,
}

/// The name of the plan in the place of the results.
pub(super) const PLAN: &str = "plan.json";

/// The most bytes of a plan: 256 MiB.
const PLAN_BYTES_MAX: u64 = 256 << 20;

/// The most bytes of a result: 1 GiB.
const RESULT_BYTES_MAX: u64 = 1 << 30;

impl PlaceArgs {
    /// The name of a file of the place in messages.
    pub(super) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.results.trim_end_matches('/'))
    }

    /// Reads the plan. `None` if there is none.
    pub(super) async fn plan_in(&self, place: &Place) -> anyhow::Result<Option<Plan>> {
        let file = self.file(PLAN);
        let bytes = place.file(PLAN, PLAN_BYTES_MAX).await.with_context(|| file.clone())?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8(bytes).with_context(|| file.clone())?;
        let plan: Plan = base::input::parse(&text, &file)?;
        plan.check().context(file)?;
        Ok(Some(plan))
    }

    /// Reads the plan.
    pub(super) async fn plan(&self, place: &Place) -> anyhow::Result<Plan> {
        let plan = self.plan_in(place).await?;
        plan.with_context(|| {
            format!("{}: there is no plan: prophet fleet plan writes one", self.file(PLAN))
        })
    }

    /// Reads the result of a shard. `None` if it is not there.
    ///
    /// # Errors
    /// It cannot be read, or is the result of another plan.
    pub(super) async fn result(
        &self,
        place: &Place,
        plan: &Plan,
        number: usize,
    ) -> anyhow::Result<Option<ShardResult>> {
        let name = Shard::file_name(number);
        let file = || self.file(&name);
        let Some(bytes) = place.file(&name, RESULT_BYTES_MAX).await.with_context(file)? else {
            return Ok(None);
        };
        let part = plan.part(&plan.shards[number])?;
        let read = ShardResult::read(bytes, &part).with_context(file)?;
        read.map(Some).with_context(|| {
            format!(
                "{}: it is the result of another plan: remove it, or name another place",
                file()
            )
        })
    }
}
