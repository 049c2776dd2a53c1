//! Which requests are answered: those whose token may read the path.

use std::time::Duration;

use dashboard::http::{PLAIN, Request, Response, Token};
use tokio::runtime::Handle;

use crate::cluster::{Access, Reviewer};

/// The time limit of a review. The API server answers within milliseconds.
const REVIEW: Duration = Duration::from_secs(5);

/// Refuses requests without a token that may read the path.
pub(super) struct Guard {
    reviewer: Reviewer,
    runtime: Handle,
}

impl Guard {
    /// A guard that reviews tokens on the runtime of the calling thread.
    pub(super) fn new(reviewer: Reviewer) -> Self {
        Self { reviewer, runtime: Handle::current() }
    }

    /// The response to a request that is refused.
    pub(super) fn refusal(&self, request: &Request) -> Option<Response> {
        let refuse = |status, text: String| Some(Response::Text(status, PLAIN, text));
        let Some(Token(token)) = &request.token else {
            return refuse(401, "a token is required: send the header \"Authorization: Bearer TOKEN\", with a token of a Kubernetes user or service account\n".into());
        };
        let review = self.reviewer.access(token, &request.path, request.source);
        let reviewed = self.runtime.block_on(async { tokio::time::timeout(REVIEW, review).await });
        match reviewed {
            Ok(Ok(Access::Granted)) => None,
            Ok(Ok(Access::Unknown)) => {
                refuse(401, "the token is not valid: it may have expired\n".into())
            }
            Ok(Ok(Access::Denied)) => refuse(
                403,
                "the token is valid, but may not read this path: it needs a ClusterRole with its nonResourceURLs and the verb get\n".into(),
            ),
            Ok(Ok(Access::TooMany)) => {
                refuse(503, "too many unknown tokens were sent in the last minute\n".into())
            }
            failed => {
                let error = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no response within {}s", REVIEW.as_secs()),
                };
                tracing::warn!(error, "failed to review the token of a request");
                refuse(503, "the API server could not review the token\n".into())
            }
        }
    }
}
