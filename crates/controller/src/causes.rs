//! The message of an error with those of its causes.

use std::error::Error;

/// An error's message, followed by the messages of its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let messages = anyhow::Chain::new(error).map(ToString::to_string);
    messages.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failure(&'static str, #[source] Option<Box<Failure>>);

    #[test]
    fn a_chain_names_the_act_first_and_the_deepest_cause_last() {
        let refused = Failure("refused", None);
        assert_eq!(chain(&refused), "refused");
        let failed = Failure("failed to connect", Some(Box::new(refused)));
        assert_eq!(chain(&failed), "failed to connect: refused");
    }
}
