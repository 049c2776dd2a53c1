//! Placeholders over Auto Scaling groups: a real API server, scheduler and controller manager,
//! emulated AWS, and the controller with the permissions of its chart.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alerts;
mod alerts_by_prometheus;
mod announced;
mod buffers;
mod chart;
mod faults;
mod forecasts;
mod groups;
mod liveness;
mod nodes;
mod off_switch;
mod policies;
mod preemption;
mod prometheus;
mod real;
mod reality;
mod replicas;
mod secrets;
mod soak;
mod spot;
mod templates;
mod warm_pools;
mod warming;
mod watches;
mod world;
mod worlds;
