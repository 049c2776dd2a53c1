//! Real nodes: a kubelet, containerd and runc run the pods.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pods;
