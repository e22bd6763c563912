"""Hosts for tests: network namespaces with addresses and names of their own, joined by another that plays the switch.

A host is a network, a host name, a /dev/shm and an /etc/hosts of its own; files and processors are the machine's. Its cable
can be pulled and slowed down. All of it needs root, and goes with the test.
"""

import os
import subprocess

NETWORK = "10.77.0"


def require_root(test):
    """Says so where the machine has no hosts to offer."""
    if os.geteuid() != 0:
        print(f"{test.id()} did not run: only root may make network namespaces", flush=True)
        test.skipTest("only root may make network namespaces")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)} fails: {done.stderr}")
    return done.stdout


class Hosts:
    """h1, h2, … at 10.77.0.1, 10.77.0.2, …, each plugged into its own port of a switch."""

    def __init__(self, test, count):
        require_root(test)
        # The numbers in the kernel's names keep tests at the same time apart.
        self.names = [f"h{number}" for number in range(1, count + 1)]
        self.folder = test.folder
        self.switch = f"cohort-{os.getpid()}-{id(self) % 1000}-switch"
        self.namespaces = {name: f"cohort-{os.getpid()}-{id(self) % 1000}-{name}" for name in self.names}
        for namespace in (self.switch, *self.namespaces.values()):
            run("ip", "netns", "add", namespace)
            test.addCleanup(run, "ip", "netns", "del", namespace)
        run("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "switch", "up")
        for name in self.names:
            inside = ["ip", "-n", self.namespaces[name]]
            run("ip", "-n", self.switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns",
                self.namespaces[name])
            run("ip", "-n", self.switch, "link", "set", name, "master", "switch", "up")
            run(*inside, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                run(*inside, "link", "set", device, "up")
        self.hosts_file = self.folder / "hosts"
        self.hosts_file.write_text("127.0.0.1 localhost\n"
                                   + "".join(f"{self.address(name)} {name}\n" for name in self.names))
        # What a host does before a command, by its name: lines of shell.
        self.prologues = dict.fromkeys(self.names, "")
        # mpirun's way to a host: AGENT HOST COMMAND...
        self.agent = self.folder / "agent"
        self.write_agent()

    def address(self, name):
        return f"{NETWORK}.{int(name[1:])}"

    def introduce(self):
        """Tells every host where all others are. The kernel remembers only some thousand that were found by asking, for all
        namespaces together: too few for dozens of hosts that all meet."""
        links = {name: run("ip", "-n", self.namespaces[name], "-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]
                 for name in self.names}
        for name in self.names:
            lines = self.folder / "neighbours"
            lines.write_text("".join(f"neigh replace {self.address(other)} lladdr {link} dev eth0 nud permanent\n"
                                     for other, link in links.items() if other != name))
            run("ip", "-n", self.namespaces[name], "-batch", str(lines))

    def prepare(self, name, line):
        """A line of shell that the host runs before every command, in namespaces of that command's own."""
        self.prologues[name] += line + "\n"
        self.write_agent()

    def write_agent(self):
        cases = "".join(f"{name})\nnamespace={self.namespaces[name]}\nprologue() {{ :\n{self.prologues[name]}}}\n;;\n"
                        for name in self.names)
        self.agent.write_text(f"""#!/bin/bash
# agent HOST COMMAND...: runs it there. Words are joined by spaces for a shell, as ssh does.
host=$1
shift
case $host in
{cases}*) echo "no host $host" >&2; exit 1;;
esac
export -f prologue
export agent_host=$host agent_command="$*"
exec nsenter --net=/run/netns/$namespace unshare --uts --mount bash -c '
hostname "$agent_host"
mount --make-rprivate /
mount --bind {self.hosts_file} /etc/hosts
mount -t tmpfs shm /dev/shm
prologue || exit 97
command=$agent_command
unset agent_host agent_command
exec bash -c "$command"'
""")
        self.agent.chmod(0o755)

    def on(self, name, *words):
        """Words that run these on the host; the shell there splits them again."""
        return [str(self.agent), name, "exec", *map(str, words)]

    def mpirun(self, hosts, *words, slots=1, options=()):
        """The same for so many processes on each of these hosts, started from the first of them."""
        return self.on(hosts[0], "mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm", "rsh",
                       "--mca", "plm_rsh_agent", self.agent, "--mca", "plm_rsh_no_tree_spawn", "1",
                       "--mca", "btl_tcp_if_include", f"{NETWORK}.0/24",
                       "--mca", "oob_tcp_if_include", f"{NETWORK}.0/24",
                       "-H", ",".join(f"{host}:{slots}" for host in hosts), "-np", str(len(hosts) * slots), *options, *words)

    def plug(self, name, how):
        """up or down: nobody hears a word of a cable that is pulled."""
        run("ip", "-n", self.switch, "link", "set", name, how)

    def slow_down(self, name, rate):
        """What leaves the host, and what comes to it: "20mbit"."""
        for where, device in ((self.namespaces[name], "eth0"), (self.switch, name)):
            run("tc", "-n", where, "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb",
                "latency", "200ms")
