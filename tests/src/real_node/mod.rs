//! Real nodes: a kubelet, containerd and runc, whose pods run on this machine.
//!
//! Each node has its own processes, mounts, control group and range of addresses, so several can
//! run side by side. When a node is dropped, all its processes end, those of its pods too. A node
//! needs Linux and root. [`permitted`] tries whether a node can start on this machine.

mod cgroup;
mod forward;
mod image;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as SocketName, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;
use tempfile::TempDir;

use self::cgroup::Cgroup;
pub use self::forward::Forward;
use self::image::run;
pub use self::image::{Image, PAUSE, SHELL};
use crate::ports::Port;
use crate::process::Process;
use crate::quantity::thousandths;
use crate::{built, wait};

/// The longest wait for a part of a node, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// The address of the API server for pods: the first of its range of services.
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The memory that the kubelet keeps free by evictions, which is not allocatable.
const EVICTION_MIB: i128 = 100;

/// Gives a node its own mounts and processes: the folders that containerd, the kubelet and the
/// plugins of the network use by default are those below the folder `$1`. The settings of the
/// kernel that they would change for the whole machine are files, too, with the values that they
/// want. The shell waits for processes whose parents have ended.
const SCRIPT: &str = r#"set -eu
mount --make-rshared /
mount -t proc proc /proc
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000 net/ipv4/ip_forward=1; do
  file=$1/settings/${setting%=*}
  mkdir -p "${file%/*}"
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
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
    /// The first process of the node, with which all others end.
    first: u32,
    folder: TempDir,
    _cgroup: Cgroup,
    _port: Port,
}

impl Drop for RealNode {
    fn drop(&mut self) {
        self.kubelet.kill();
        self.containerd.kill();
        // The folder and the control group can be removed once no process is left.
        let first = PathBuf::from(format!("/proc/{}", self.first));
        for _ in 0..200 {
            if !first.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("the processes of a node still run: {}", first.display());
    }
}

/// A device plugin of a node. It ends when this value is dropped.
#[derive(Debug)]
pub struct DevicePlugin {
    process: Process,
}

impl Drop for DevicePlugin {
    fn drop(&mut self) {
        if let Ok(id) = first_process(self.process.id()) {
            // It may have ended.
            let _ = run(Command::new("kill").arg("-KILL").arg(id.to_string()));
        }
        // What the plugin gives to containers in place of devices.
        for file in ["/tmp/Dev-1", "/tmp/Dev-2"] {
            let _ = fs::remove_file(file);
        }
    }
}

/// The variable that makes it an error, and no reason to skip a test, that this machine does not
/// permit nodes.
const REQUIRED: &str = "PROPHET_REAL_NODES";

/// Whether this machine permits nodes. If it does not, a note on standard error gives the reason.
///
/// # Errors
/// Nodes are not permitted, and `PROPHET_REAL_NODES` is set.
pub fn permitted() -> Result<bool> {
    static PERMITTED: OnceLock<Result<(), String>> = OnceLock::new();
    let attempt = || {
        let attempt = attempt();
        if let Err(error) = &attempt {
            // Written directly, because the output of a test that passes is not shown.
            let note = format!("note: no real node starts on this machine: {error:#}\n");
            let _ = std::io::stderr().write_all(note.as_bytes());
        }
        attempt.map_err(|error| format!("{error:#}"))
    };
    match PERMITTED.get_or_init(attempt) {
        Err(error) if std::env::var_os(REQUIRED).is_some() => bail!("no real node: {error}"),
        permitted => Ok(permitted.is_ok()),
    }
}

/// Tries what a node needs of this machine.
fn attempt() -> Result<()> {
    for program in ["ip", "nsenter"] {
        run(Command::new(program).arg("-V"))?;
    }
    let folder = TempDir::new()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--", "sh", "-c", TRIAL]);
    run(command.current_dir(folder.path()))?;
    Cgroup::create(&format!("prophet-trial-{}", std::process::id()))?;
    let version = run(Command::new(built::control_plane("bin/runc")?).arg("--version"))?;
    ensure!(
        version.contains("libseccomp"),
        "runc was built without filters of system calls, because Debian's package libseccomp-dev could not be downloaded: remove libseccomp in the folder of {}, and run make control-plane again",
        built::control_plane("bin")?.display(),
    );
    Ok(())
}

/// Mounts what a node mounts.
const TRIAL: &str = "set -eu
mount -t proc proc /proc
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged";

impl RealNode {
    /// Starts containerd, imports the images, and starts a kubelet that registers the node.
    /// `kubeconfig` is that of an administrator.
    ///
    /// # Errors
    /// `make control-plane` has not been run, or a part does not start.
    pub async fn start(kubeconfig: &Path, boot: &Boot, kubelets: &Kubelets) -> Result<Self> {
        remove_left()?;
        let port = Port::free()?;
        let folder = tempfile::Builder::new().prefix(&format!("{PREFIX}{port}-")).tempdir()?;
        let path = folder.path();
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
        Ok(Self { kubelet, containerd, first, folder, _cgroup: cgroup, _port: port })
    }

    /// Runs `ctr`, the command line of containerd, on the images and containers of this node;
    /// returns its standard output.
    ///
    /// # Errors
    /// The command fails.
    pub fn ctr(&self, arguments: &[&str]) -> Result<String> {
        let mut command = inside(self.first, &built::control_plane("bin/ctr")?);
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

    /// Starts a device plugin, which registers two GPUs.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_device_plugin(&self) -> Result<DevicePlugin> {
        let command = inside(self.first, &built::control_plane("bin/device-plugin")?);
        let process = Process::start("device-plugin", &command, self.folder.path())?;
        Ok(DevicePlugin { process })
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

/// The start of the names of the folders of nodes, before the port of the kubelet.
const PREFIX: &str = "prophet-node-";

/// Removes the folders and control groups of nodes of tests that were killed: those whose port
/// nobody reserves.
fn remove_left() -> Result<()> {
    for entry in fs::read_dir(std::env::temp_dir())? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let port = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let Some(port) = port.and_then(|port| port.parse().ok()) else { continue };
        if let Some(_port) = Port::reserve(port) {
            drop(Cgroup::left(&name));
            // What cannot be removed is left for the next test.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
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
    let total = i128::from(total.parse::<u64>()?);
    // As the kubelet counts them, which ignores what this process may use of them.
    let cores = fs::read_to_string("/proc/cpuinfo")?.matches("processor\t:").count();
    let cores = i128::try_from(cores)? * 1_000;
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
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "nodeStatusUpdateFrequency": "2s",
    });
    Ok(fs::write(folder.join("kubelet.json"), configuration.to_string())?)
}

/// The address [`API_SERVICE`] on this machine, where pods find the API server and other parts of
/// the tests. One at a time: a second one waits until the first is dropped.
#[derive(Debug)]
pub struct ServiceAddress {
    forwards: Vec<Forward>,
    _lock: UnixListener,
}

impl ServiceAddress {
    /// Adds the address. Begin a test with it, because it may wait for another test.
    ///
    /// # Errors
    /// The address cannot be added, or another test keeps it for a quarter of an hour.
    pub async fn start() -> Result<Self> {
        let name = SocketName::from_abstract_name("prophet-test-service-address")?;
        let lock = wait::until("the address of the API server", 15 * DEADLINE, async || {
            Ok(Some(UnixListener::bind_addr(&name)?))
        });
        let lock = lock.await?;
        // It fails if the address is there, as after a test that was killed.
        let _ = change_address("add");
        Ok(Self { forwards: Vec::new(), _lock: lock })
    }

    /// Forwards port 443, that of the API server, to this URL.
    ///
    /// # Errors
    /// The URL has no port, or the address has none.
    pub fn serve(&mut self, api_server: &str) -> Result<()> {
        let port = api_server.rsplit(':').next().context("the URL has no port")?;
        self.forward(443, port.parse()?)
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

impl Drop for ServiceAddress {
    fn drop(&mut self) {
        self.forwards.clear();
        if let Err(error) = change_address("delete") {
            eprintln!("failed to remove the address {API_SERVICE}: {error:#}");
        }
    }
}

fn change_address(verb: &str) -> Result<String> {
    let address = format!("{API_SERVICE}/32");
    run(Command::new("ip").args(["address", verb, &address, "dev", "lo"]))
}
