//! Real nodes: a kubelet, containerd and runc, whose pods run on this machine.
//!
//! Each node has its own processes, mounts, control group and range of addresses, so several can
//! run side by side. When a node is dropped, all its processes end, those of its pods too. A node
//! needs Linux and root; [`permitted`] says whether this machine permits it.

mod cgroup;
mod forward;
mod image;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;
use tempfile::TempDir;

use self::cgroup::Cgroup;
pub use self::forward::Forward;
use self::image::run;
pub use self::image::{Image, PAUSE, SHELL};
use crate::built;
use crate::ports::Port;
use crate::process::Process;
use crate::quantity::thousandths;

/// The longest wait for a part of a node, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// The address of the API server for pods: the first of its range of services.
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The memory that the kubelet keeps free by evictions, which is not allocatable.
const EVICTION_MIB: i128 = 100;

/// Gives a node its own mounts and processes: the folders that containerd, the kubelet and the
/// plugins of the network use by default are those below the folder `$1`. The shell waits for
/// processes whose parents have ended.
const SCRIPT: &str = r#"set -eu
mount --make-rshared /
mount -t proc proc /proc
for path in /run/containerd /var/lib/containerd /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers /etc/cni/net.d /var/warm; do
  mkdir -p "$path" "$1$path"
  mount --bind "$1$path" "$path"
  mount --make-rshared "$path"
done
containerd --config "$1/containerd.toml" &
wait"#;

/// What a node is before it boots.
#[derive(Debug, Clone)]
pub struct Boot {
    /// The name of the node.
    pub name: String,
    /// The ID of the instance, in the form of a cloud provider.
    pub provider_id: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The taints.
    pub taints: Vec<Taint>,
    /// What pods may request of CPU and memory. Other resources are left to device plugins. The
    /// node's capacity is that of this machine.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// What all nodes of a cluster have.
#[derive(Debug, Clone, Default)]
pub struct Kubelets {
    /// Archives of images that nodes have from the start.
    pub images: Vec<PathBuf>,
    /// Names of registries, and the address on loopback that serves each.
    pub registries: Vec<(String, SocketAddr)>,
}

/// A running node.
#[derive(Debug)]
pub struct RealNode {
    kubelet: Process,
    containerd: Process,
    folder: TempDir,
    _cgroup: Cgroup,
    _port: Port,
}

/// Whether this machine permits nodes. If it does not, a note on standard error gives the reason.
///
/// # Errors
/// Standard error is closed.
pub fn permitted() -> Result<bool> {
    let attempt = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--", "mount", "-t", "proc", "proc", "/proc"]);
        run(&mut command)?;
        Cgroup::create(&format!("prophet-{}", std::process::id()))?;
        let version = run(Command::new(built::control_plane("bin/runc")?).arg("--version"))?;
        ensure!(version.contains("libseccomp"), "runc was built without filters of system calls");
        Ok(())
    };
    let permitted: Result<()> = attempt();
    if let Err(error) = &permitted {
        // Written directly, because the output of a test that passes is not shown.
        let note = format!("note: no real node starts on this machine: {error:#}\n");
        std::io::stderr().write_all(note.as_bytes())?;
    }
    Ok(permitted.is_ok())
}

impl RealNode {
    /// Starts containerd, imports the images, and starts a kubelet that registers the node.
    /// `kubeconfig` is that of an administrator.
    ///
    /// # Errors
    /// `make control-plane` has not been run, or a part does not start.
    pub async fn start(kubeconfig: &Path, boot: &Boot, kubelets: &Kubelets) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("prophet-node-").tempdir()?;
        let path = folder.path();
        let port = Port::free()?;
        let unique = path.file_name().and_then(|name| name.to_str()).context("no UTF-8")?;
        let cgroup = Cgroup::create(unique)?;
        write_network(path, &port)?;
        write_containerd(path, kubelets)?;
        write_kubelet(path, boot, &port, &cgroup)?;
        fs::write(path.join("kubeconfig"), fs::read(kubeconfig)?)?;

        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]);
        command.args(["--", "sh", "-c", SCRIPT, "node"]).arg(path);
        // containerd finds its shim, and the shim finds runc, by the path.
        let programs = built::control_plane("bin")?;
        let others = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{others}", programs.display()));
        let mut containerd = Process::start("containerd", &command, path)?;
        let socket = path.join("run/containerd/containerd.sock");
        containerd
            .wait_until("the socket of containerd", DEADLINE, async || {
                Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())
            })
            .await?;
        let first = first_process(containerd.id())?;
        for image in &kubelets.images {
            let mut import = inside(first, &built::control_plane("bin/ctr")?);
            run(import.args(["--namespace", "k8s.io", "images", "import"]).arg(image))?;
        }

        let mut command = inside(first, &built::control_plane("bin/kubelet")?);
        command.arg(format!("--config={}", path.join("kubelet.json").display()));
        command.arg(format!("--kubeconfig={}", path.join("kubeconfig").display()));
        command.arg(format!("--hostname-override={}", boot.name));
        let labels: Vec<String> =
            boot.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        command.arg(format!("--node-labels={}", labels.join(",")));
        let mut kubelet = Process::start("kubelet", &command, path)?;
        kubelet.wait_for_port(&port, DEADLINE).await?;
        Ok(Self { kubelet, containerd, folder, _cgroup: cgroup, _port: port })
    }

    /// Runs `ctr`, the command line of containerd, on the images and containers of this node;
    /// returns its standard output.
    ///
    /// # Errors
    /// The command fails.
    pub fn ctr(&self, arguments: &[&str]) -> Result<String> {
        let mut command =
            inside(first_process(self.containerd.id())?, &built::control_plane("bin/ctr")?);
        run(command.args(["--namespace", "k8s.io"]).args(arguments))
    }

    /// Stops the kubelet without its knowledge (`STOP`), or lets it go on (`CONT`). The pods go on.
    ///
    /// # Errors
    /// The kubelet has ended.
    pub fn signal_kubelet(&self, signal: &str) -> Result<()> {
        let id = first_process(self.kubelet.id())?;
        run(Command::new("kill").arg(format!("-{signal}")).arg(id.to_string())).map(drop)
    }

    /// Starts a device plugin, which registers two GPUs. It ends when the value is dropped.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_device_plugin(&self) -> Result<Process> {
        let program = built::control_plane("bin/device-plugin")?;
        let command = inside(first_process(self.containerd.id())?, &program);
        Process::start("device-plugin", &command, self.folder.path())
    }

    /// The log of the kubelet so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> Result<String> {
        self.kubelet.log()
    }

    /// The folder that the node's pods find at an absolute path below `/var/warm`.
    pub fn folder_of(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }
}

/// The only child of a process: the program that `unshare` or `nsenter` started.
fn first_process(parent: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    children.split_whitespace().next().context("the process has no child")?.parse().context("a PID")
}

/// A command among the processes and the mounts of a node, given the node's first process.
fn inside(first: u32, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={first}")).args(["--mount", "--pid", "--"]).arg(program);
    command
}

/// Pods have addresses of a range that follows from the node's port, which no other node has.
fn write_network(folder: &Path, port: &Port) -> Result<()> {
    let [high, low] = port.number().wrapping_sub(20_000).to_be_bytes();
    let range = json!([[{"subnet": format!("10.{}.{low}.0/24", 200 + high)}]]);
    let plugin = json!({"type": "ptp", "ipam": {"type": "host-local", "ranges": range,
        "routes": [{"dst": "0.0.0.0/0"}]}});
    let network = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]});
    let target = folder.join("etc/cni/net.d");
    fs::create_dir_all(&target)?;
    Ok(fs::write(target.join("pods.conflist"), network.to_string())?)
}

fn write_containerd(folder: &Path, kubelets: &Kubelets) -> Result<()> {
    let programs = built::control_plane("bin")?;
    for (registry, address) in &kubelets.registries {
        let hosts = folder.join("registries").join(registry);
        fs::create_dir_all(&hosts)?;
        fs::write(hosts.join("hosts.toml"), format!("server = \"http://{address}\"\n"))?;
    }
    // Three settings are for machines without AppArmor, huge pages, or the leave to lower the score
    // of a process that runs out of memory.
    let text = format!(
        r#"version = 3
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "{}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
disable_apparmor = true
disable_hugetlb_controller = true
tolerate_missing_hugetlb_controller = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{}"]
[plugins.'io.containerd.internal.v1.opt']
path = "{}"
"#,
        folder.join("registries").display(),
        programs.display(),
        folder.join("opt").display(),
    );
    Ok(fs::write(folder.join("containerd.toml"), text)?)
}

fn write_kubelet(folder: &Path, boot: &Boot, port: &Port, cgroup: &Cgroup) -> Result<()> {
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|line| line.split_whitespace().next()).context("no MemTotal")?;
    let (total, cores) = (i128::from(total.parse::<u64>()?), std::thread::available_parallelism()?);
    let cores = i128::try_from(cores.get())? * 1_000;
    let amount = |name| boot.allocatable.get(name).map_or(Ok(0), |amount| thousandths(&amount.0));
    let (cpu, memory) = (amount("cpu")?, amount("memory")? / 1_024_000 + EVICTION_MIB * 1_024);
    ensure!(
        cpu <= cores && memory <= total,
        "this machine has {cores}m of CPU and {total}Ki, less than the {cpu}m and {memory}Ki of a node"
    );
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port.number(),
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "providerID": boot.provider_id,
        "registerWithTaints": boot.taints,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup.path(),
        "failCgroupV1": false,
        "failSwapOn": false,
        // It cannot be measured on every machine.
        "localStorageCapacityIsolation": false,
        "evictionHard": {"memory.available": format!("{EVICTION_MIB}Mi")},
        "systemReserved": {"cpu": format!("{}m", cores - cpu), "memory": format!("{}Ki", total - memory)},
        "makeIPTablesUtilChains": false,
        "nodeStatusUpdateFrequency": "2s",
    });
    Ok(fs::write(folder.join("kubelet.json"), configuration.to_string())?)
}

/// The address [`API_SERVICE`] on this machine, where pods find the API server and other parts of
/// the tests. One at a time: a second one waits for the first to be dropped.
#[derive(Debug)]
pub struct ServiceAddress {
    forwards: Vec<Forward>,
    _lock: TcpListener,
}

impl ServiceAddress {
    /// Adds the address, and forwards its port 443 to the API server.
    ///
    /// # Errors
    /// The address cannot be added, or another test keeps it for too long.
    pub async fn start(api_server: &str) -> Result<Self> {
        let address = format!("{API_SERVICE}/32");
        // It fails if the address is there already, as after a test that was killed.
        let _ = run(Command::new("ip").args(["address", "add", &address, "dev", "lo"]));
        let lock = crate::wait::until("the address of the API server", 5 * DEADLINE, async || {
            Ok(Some(TcpListener::bind((API_SERVICE, 1))?))
        });
        let mut service = Self { forwards: Vec::new(), _lock: lock.await? };
        let port = api_server.rsplit(':').next().context("the URL has no port")?;
        service.forward(443, port.parse()?)?;
        Ok(service)
    }

    /// Forwards another port to one on loopback.
    ///
    /// # Errors
    /// The port is in use.
    pub fn forward(&mut self, port: u16, to: u16) -> Result<()> {
        let listen = SocketAddr::from((API_SERVICE, port));
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
        self.forwards.push(Forward::start(listen, upstream, None)?);
        Ok(())
    }
}
