"""A real ssh server on loopback for a test, with keys of its own; nothing of the machine's own ssh is touched.

Installing openssh-server would open a port of the developer's machine, so where there is no sshd its package is only unpacked.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
LIMIT = 60


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=LIMIT, **options)


def find_sshd(cache):
    """The server's path, and where its libraries are. `cache`: a folder that stays."""
    if Path("/usr/sbin/sshd").exists():
        return "/usr/sbin/sshd", ""
    unpacked = cache / "sshd"
    if not (unpacked / "usr/sbin/sshd").exists():
        packages = cache / "sshd.packages"
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir(parents=True)
        run("apt-get", "download", "openssh-server", "libwrap0", cwd=packages)
        for package in packages.glob("*.deb"):
            run("dpkg", "-x", package, packages / "root")
        (packages / "root").rename(unpacked)
    return str(unpacked / "usr/sbin/sshd"), ":".join(str(path) for path in unpacked.glob("usr/lib/*-linux-gnu"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class SshServer:
    """Listens at all ADDRESSES while it lives; `client` are the words that reach it."""

    def __init__(self, folder, cache):
        sshd, libraries = find_sshd(cache)
        port = free_port()
        for key in ("host_key", "user_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
        listen = "".join(f"ListenAddress {address}\n" for address in ADDRESSES)
        (folder / "sshd_config").write_text(
            f"Port {port}\n{listen}HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/user_key.pub\nPidFile none\n"
            "UsePAM no\nStrictModes no\nPasswordAuthentication no\nMaxStartups 100\nMaxSessions 100\n")
        (folder / "ssh_config").write_text(
            f"Port {port}\nIdentityFile {folder}/user_key\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known_hosts\n"
            "StrictHostKeyChecking no\nLogLevel ERROR\nBatchMode yes\n")
        self.client = f"ssh -F {folder}/ssh_config"
        command = [sshd, "-D", "-e", "-f", str(folder / "sshd_config")]
        if os.geteuid() == 0:
            # A server of root wants an account and a folder, which only it sees.
            accounts = Path("/etc/passwd").read_text()
            if "\nsshd:" not in accounts:
                accounts += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
            (folder / "passwd").write_text(accounts)
            command = ["unshare", "--mount", "sh", "-c",
                       'mount --bind "$0" /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"',
                       str(folder / "passwd"), *command]
        self.log = folder / "sshd.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})})
        self.wait_until_it_listens(port)

    def wait_until_it_listens(self, port):
        give_up = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection((ADDRESSES[-1], port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > give_up:
                    self.end()
                    raise RuntimeError(f"the ssh server did not start: {self.log.read_text()}") from None
                time.sleep(0.02)

    def end(self):
        self.process.kill()
        self.process.wait()
