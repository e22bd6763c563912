"""A SLURM cluster of several virtual nodes on this machine, for tests and measurements: a controller, an authentication daemon, and
for each node a node daemon with a host name, processes and shared memory of its own. All is in one folder, with ports that nobody
else uses, and ends with it. Needs root, and the packages of scripts/packages-test.txt.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "squeue", "scancel", "unshare")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
LIMIT = 120  # seconds that nothing here takes

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=5
ReturnToService=2
SlurmdTimeout=15
KillWait=5
JobRequeue=1
MpiDefault=pmix
TmpFS={folder}/tmp.%n
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} CoresPerSocket={cpus} \
RealMemory=4000
PartitionName=main Nodes=ALL Default=YES State=UP OverSubscribe=YES
"""


def obstacle():
    """Why there can be no cluster here; empty where there can."""
    if os.geteuid() != 0:
        return "the daemons of SLURM are started as root, which this is not"
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"{', '.join(missing)} not installed (scripts/packages-test.txt)"
    if subprocess.run(["unshare", "--uts", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode:
        return "namespaces of its own, which each node needs, are not allowed"
    return ""


def free_ports(count):
    """The first of so many in a row that nobody listens at."""
    for first in range(17000 + os.getpid() % 500 * 20, 32000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return first
            except OSError:
                continue
    raise RuntimeError("no free ports")


class SlurmCluster:
    """Nodes are n1, n2 … A context: it is up inside, and gone after."""

    def __init__(self, nodes=3, cpus=2):
        self.folder = Path(tempfile.mkdtemp(prefix="cohort-slurm-"))
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.daemons = {}  # by node
        first = free_ports(nodes + 1)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname(), folder=self.folder, port=first, first=first + 1, last=first + nodes, nodes=nodes,
            cpus=cpus))
        own = {name: text for name, text in os.environ.items() if not name.startswith(("SLURM", "OMPI_", "PMI"))}
        self.environment = {
            **own, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH,
            "OMPI_MCA_btl_tcp_if_include": "lo"}  # nodes share this machine's addresses

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        (self.folder / "state").mkdir()
        self.run("munged", "--force", "-S", self.folder / "munge.socket", f"--key-file={key}",
                 f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                 f"--seed-file={self.folder}/munged.seed")
        self.run("slurmctld")
        for node in self.nodes:
            self.power_on(node)
        self.wait_until_idle()

    def power_on(self, node):
        """As after a boot: nothing is left of what the node had."""
        for name in ("spool", "tmp"):
            shutil.rmtree(self.folder / f"{name}.{node}", ignore_errors=True)
            (self.folder / f"{name}.{node}").mkdir()
        self.daemons[node] = subprocess.Popen(
            ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child=KILL", "sh", "-c",
             f"hostname {node} && mount -t tmpfs tmpfs /dev/shm && exec slurmd -D -N {node}"],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def power_off(self, node):
        """All that runs on it is gone at once: the first process of its namespace ends."""
        daemon = self.daemons.pop(node)
        daemon.kill()
        daemon.wait()

    def stop(self):
        for node in list(self.daemons):
            self.power_off(node)
        for name in ("slurmctld", "munged"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
                os.kill(int((self.folder / f"{name}.pid").read_text()), signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command, check=True, **options):
        done = subprocess.run(list(map(str, command)), **{
            "env": self.environment, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": LIMIT,
            "check": False, **options})
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def wait_until_idle(self):
        """All nodes are up, and no job is on them."""
        def idle():
            done = self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False)
            return done.returncode == 0 and done.stdout.strip() == str(len(self.nodes))
        self.wait_until(idle, "the nodes did not come up, or their jobs did not end")

    @staticmethod
    def wait_until(condition, complaint, seconds=LIMIT):
        give_up = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > give_up:
                raise RuntimeError(complaint)
            time.sleep(0.1)

    def job(self, number):
        """What SLURM says of a job: NAME=VALUE by name."""
        text = self.run("scontrol", "--oneliner", "show", "job", number).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_until_queued_again(self, number):
        """It starts when its old credentials are no longer valid: after 11 seconds here."""
        self.wait_until(lambda: self.job(number)["Restarts"] == "1", f"job {number} was not queued again")
