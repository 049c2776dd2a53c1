//! The real cluster-autoscaler, if the environment has the path of one.

use std::ffi::OsString;
use std::path::PathBuf;

/// The environment variable with the path of a cluster-autoscaler.
pub const VARIABLE: &str = "PROPHET_CLUSTER_AUTOSCALER";

/// The path of the real cluster-autoscaler. `None` if the tests use their stand-in.
pub fn program() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path: &OsString| !path.is_empty()).map(PathBuf::from)
}

/// By how much deadlines are longer with the real cluster-autoscaler: four times, because it reads
/// the Auto Scaling groups once a minute, so it observes new and terminated instances that much
/// later.
pub fn patience() -> u32 {
    if program().is_some() { 4 } else { 1 }
}
