//! Selects Auto Scaling groups by tags, in the syntax of cluster-autoscaler's flag
//! `--node-group-auto-discovery`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use aws_sdk_autoscaling::types::Filter;

const PREFIX: &str = "asg:tag=";

/// The tags that a group must have. It must have all of them, each with the value if one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Values by key. `None` matches any value.
    tags: BTreeMap<String, Option<String>>,
}

/// Why a text is not a valid list of tags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem}; write {PREFIX}KEY,KEY=VALUE,... as for cluster-autoscaler")]
pub struct DiscoveryFault {
    text: String,
    problem: String,
}

impl Discovery {
    pub(super) fn filters(&self) -> Vec<Filter> {
        let filter = |(key, value): (&String, &Option<String>)| match value {
            Some(value) => Filter::builder().name(format!("tag:{key}")).values(value).build(),
            None => Filter::builder().name("tag-key").values(key).build(),
        };
        self.tags.iter().map(filter).collect()
    }
}

impl FromStr for Discovery {
    type Err = DiscoveryFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = |problem: String| DiscoveryFault { text: text.into(), problem };
        let list = text
            .strip_prefix(PREFIX)
            .ok_or_else(|| fault(format!("does not start with {PREFIX}")))?;
        let mut tags = BTreeMap::new();
        for (index, tag) in list.split(',').enumerate() {
            let (key, value) = tag.split_once('=').unwrap_or((tag, ""));
            if key.trim().is_empty() {
                return Err(fault(format!("has no key in tag {}", index + 1)));
            }
            // An empty value matches any value, as in cluster-autoscaler.
            let value = (!value.is_empty()).then(|| value.to_string());
            if tags.insert(key.to_string(), value).is_some() {
                return Err(fault(format!("contains {key} twice")));
            }
        }
        Ok(Self { tags })
    }
}

impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for (index, (key, value)) in self.tags.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match value {
                Some(value) => write!(f, "{comma}{key}={value}")?,
                None => write!(f, "{comma}{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = text.parse::<Discovery>();
        match (parsed, expected) {
            (Ok(discovery), Ok(spelled)) => assert_eq!(discovery.to_string(), spelled),
            (Err(fault), Err(part)) => assert!(fault.to_string().contains(part), "{fault}"),
            (parsed, _) => panic!("{text}: {parsed:?}"),
        }
    }

    #[test]
    fn the_flag_has_the_syntax_of_cluster_autoscaler() {
        check("asg:tag=a", Ok("asg:tag=a"));
        check(
            "asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/c=owned",
            Ok("asg:tag=k8s.io/cluster-autoscaler/c=owned,k8s.io/cluster-autoscaler/enabled"),
        );
        check("asg:tag=a=,b=x=y", Ok("asg:tag=a,b=x=y"));
    }

    #[test]
    fn a_fault_shows_the_expected_syntax() {
        check("tag=a", Err("does not start with asg:tag=; write asg:tag=KEY,KEY=VALUE"));
        check("", Err("does not start with"));
        check("asg:tag=", Err("has no key in tag 1"));
        check("asg:tag=a,=b", Err("has no key in tag 2"));
        check("asg:tag=a,b,a=1", Err("contains a twice"));
    }
}
