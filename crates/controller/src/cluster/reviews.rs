//! Whether the token of a request may read a path of the controller's server.
//!
//! The API server decides, as it does for the endpoints of Kubernetes itself: a `TokenReview`
//! returns the user of the token, and a `SubjectAccessReview` returns whether the user has the verb
//! `get` on the non-resource path. Answers are kept for a short time, so that the scrapes of
//! Prometheus cost no requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::clock::Stopwatch;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::Semaphore;

/// How long a grant is used. A token that is revoked still works for that long.
const GRANT: Duration = Duration::from_mins(1);
/// How long a refusal is used. Short, because a role may just have been bound.
const REFUSAL: Duration = Duration::from_secs(10);
/// The most answers that are kept. A cluster has a few readers, of a few paths each.
const ANSWERS_MAX: usize = 256;
/// The most reviews of unknown tokens per minute, so that strangers who send made-up tokens cannot
/// burden the API server. Tokens that were granted before do not count.
const UNKNOWN_MAX: u32 = 600;
/// The most reviews of unknown tokens per minute and client address, so that one stranger cannot
/// keep out a reader whose token is new.
const UNKNOWN_OF_SOURCE_MAX: u32 = 60;
/// The most reviews at a time.
const AT_A_TIME: usize = 4;

/// Whether a token may read a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The user of the token may read the path.
    Granted,
    /// The token has no user.
    Unknown,
    /// The user of the token may not read the path.
    Denied,
    /// Too many unknown tokens were sent.
    TooMany,
}

/// Reviews tokens by the API server.
#[derive(Debug)]
pub struct Reviewer {
    reviews: Reviews,
    started: Stopwatch,
    answers: Mutex<Answers>,
    running: Semaphore,
}

/// The requests of a review.
struct Reviews {
    tokens: Api<TokenReview>,
    access: Api<SubjectAccessReview>,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reviews")
    }
}

impl Reviewer {
    /// A reviewer without any answers yet.
    pub fn new(client: Client) -> Self {
        let reviews = Reviews { tokens: Api::all(client.clone()), access: Api::all(client) };
        Self {
            reviews,
            started: Stopwatch::now(),
            answers: Mutex::default(),
            running: Semaphore::new(AT_A_TIME),
        }
    }

    /// Whether a token may read a path.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn access(
        &self,
        token: &str,
        path: &str,
        source: Option<IpAddr>,
    ) -> kube::Result<Access> {
        let question = (token.to_owned(), path.to_owned());
        if let Some(access) = self.answers().lookup(&question, source, self.started.elapsed()) {
            return Ok(access);
        }
        let _running = self.running.acquire().await;
        let access = self.reviews.review(token, path).await?;
        self.answers().note(question, access, self.started.elapsed());
        Ok(access)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reviews {
    async fn review(&self, token: &str, path: &str) -> kube::Result<Access> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = self.tokens.create(&PostParams::default(), &review).await?;
        let status = reviewed.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Access::Unknown);
        };
        let attributes =
            NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".into()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviewed = self.access.create(&PostParams::default(), &review).await?;
        let allowed = reviewed.status.is_some_and(|status| status.allowed);
        Ok(if allowed { Access::Granted } else { Access::Denied })
    }
}

/// A token and a path.
type Question = (String, String);

/// The recent answers, and how many reviews unknown tokens have caused in a minute.
#[derive(Default)]
struct Answers {
    known: BTreeMap<Question, (Duration, Access)>,
    /// The beginning of the minute in which reviews are counted.
    minute: Duration,
    unknown: u32,
    /// The same by client address. At most [`UNKNOWN_MAX`] addresses are here.
    unknown_of: BTreeMap<Option<IpAddr>, u32>,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Only the number is written, because the questions contain tokens, which are secret.
        write!(f, "Answers({})", self.known.len())
    }
}

impl Answers {
    /// The answer to a question; `None` if it must be reviewed.
    fn lookup(
        &mut self,
        question: &Question,
        source: Option<IpAddr>,
        now: Duration,
    ) -> Option<Access> {
        let known = self.known.get(question);
        if let Some((since, access)) = known {
            let lasts = if *access == Access::Granted { GRANT } else { REFUSAL };
            if now.saturating_sub(*since) < lasts {
                return Some(*access);
            }
        }
        if known.is_some_and(|(_, access)| *access == Access::Granted) {
            return None;
        }
        if now.saturating_sub(self.minute) >= Duration::from_mins(1) {
            (self.minute, self.unknown) = (now, 0);
            self.unknown_of.clear();
        }
        let of_source = self.unknown_of.get(&source).copied().unwrap_or(0);
        if self.unknown >= UNKNOWN_MAX || of_source >= UNKNOWN_OF_SOURCE_MAX {
            return Some(Access::TooMany);
        }
        self.unknown += 1;
        self.unknown_of.insert(source, of_source + 1);
        None
    }

    /// Keeps an answer. When there are too many, the oldest refusal is forgotten, else the oldest.
    fn note(&mut self, question: Question, access: Access, now: Duration) {
        if self.known.len() >= ANSWERS_MAX && !self.known.contains_key(&question) {
            let ranked = self.known.iter();
            let least =
                ranked.min_by_key(|(_, (since, access))| (*access == Access::Granted, *since));
            let least = least.map(|(question, _)| question.clone());
            least.map(|question| self.known.remove(&question));
        }
        self.known.insert(question, (now, access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(token: &str) -> Question {
        (token.into(), "/metrics".into())
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_grant_lasts_a_minute_and_a_refusal_ten_seconds() {
        let mut answers = Answers::default();
        answers.note(question("a"), Access::Granted, SECOND);
        answers.note(question("b"), Access::Denied, SECOND);
        answers.note(question("c"), Access::Unknown, SECOND);
        let mut check = |token: &str, seconds: u64, expected: Option<Access>| {
            let found = answers.lookup(&question(token), None, Duration::from_secs(seconds));
            assert_eq!(found, expected, "{token} after {seconds} s");
        };
        check("a", 60, Some(Access::Granted));
        check("a", 61, None);
        check("b", 10, Some(Access::Denied));
        check("b", 11, None);
        check("c", 10, Some(Access::Unknown));
        check("c", 11, None);
        check("d", 11, None);
    }

    #[test]
    fn a_grant_holds_for_its_path_only() {
        let mut answers = Answers::default();
        answers.note(question("a"), Access::Granted, SECOND);
        assert_eq!(answers.lookup(&("a".into(), "/".into()), None, SECOND), None);
    }

    #[test]
    fn made_up_tokens_cause_few_reviews_and_displace_no_grant() {
        let mut answers = Answers::default();
        answers.note(question("reader"), Access::Granted, Duration::ZERO);
        let mut reviews = 0;
        for at in 0..10_000 {
            let made_up = question(&format!("made up {at}"));
            if answers.lookup(&made_up, None, 2 * SECOND).is_none() {
                reviews += 1;
                answers.note(made_up, Access::Unknown, 2 * SECOND);
            }
        }
        assert_eq!(reviews, UNKNOWN_OF_SOURCE_MAX);
        // A token that is new, from another address, is reviewed.
        let other = Some(IpAddr::from([10, 0, 0, 1]));
        assert_eq!(answers.lookup(&question("rotated"), other, 2 * SECOND), None);
        // The reader's token is reviewed again, although no unknown token is.
        let later = Duration::from_secs(61);
        assert_eq!(answers.lookup(&question("reader"), None, later), None);
        assert_eq!(answers.lookup(&question("other"), None, 3 * SECOND), Some(Access::TooMany));
        assert_eq!(answers.lookup(&question("other"), None, later + SECOND), None);
        for at in 0..2 * ANSWERS_MAX {
            answers.note(question(&format!("made up {at}")), Access::Unknown, later);
        }
        assert_eq!(answers.known.len(), ANSWERS_MAX);
        assert!(answers.known.contains_key(&question("reader")));
    }
}
