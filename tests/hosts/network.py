"""Test hosts inside this machine: a network namespace each, with a real sshd, processes of its own
(a pid namespace, so that hosts cannot see each other's) and a /tmp of its own, on one bridge.

Needs root, iproute2, openssh-server. Everything is gone when the Network is closed.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time


class Host:
    """The machine of a user (sshd is None there), or one that trains."""

    def __init__(self, number, address, namespace, folder):
        self.number = number
        self.name = f"h{number}"
        self.address = address
        self.namespace = namespace
        self.folder = folder
        self.sshd = None
        self.network_id = os.stat(f"/run/netns/{namespace}").st_ino

    def processes(self):
        """(pid, command line) of everything on this host, by this machine's numbers."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if os.stat(entry / "ns/net").st_ino != self.network_id:
                    continue
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found.append((int(entry.name), b" ".join(words).decode(errors="replace").strip()))
        return found

    def of_tern(self):
        return [(pid, line) for pid, line in self.processes() if "tern" in line.split(" ")[0]]

    def temporary_files(self):
        """Names below its /tmp; nothing of a host that is down."""
        for pid, _ in self.processes():
            with contextlib.suppress(OSError):
                return sorted(entry.name for entry in
                              pathlib.Path("/proc", str(pid), "root", "tmp").iterdir())
        return []

    def listening(self):
        """Local addresses that something listens on."""
        text = run(["ip", "netns", "exec", self.namespace, "ss", "-Hltn"]).stdout
        return [line.split()[3] for line in text.splitlines()]


class Network:
    def __init__(self, hosts, libtorch):
        self.id = os.getpid() % 100_000
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="tern-hosts-", dir="/var/tmp"))
        self.switch = f"tern{self.id}sw"
        self.libtorch = libtorch
        self.hosts = []
        try:
            self._build(hosts)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def user(self):
        """The host that commands are typed on."""
        return self.hosts[0]

    @property
    def machines(self):
        return self.hosts[1:]

    def _build(self, count):
        keys = self.root / "keys"
        keys.mkdir()
        make_key(keys / "id")
        os.makedirs("/run/sshd", exist_ok=True)
        run(["ip", "netns", "add", self.switch])
        run(["ip", "-n", self.switch, "link", "add", "br0", "type", "bridge"])
        run(["ip", "-n", self.switch, "link", "set", "br0", "up"])
        for number in range(count + 1):
            namespace = f"tern{self.id}h{number}"
            run(["ip", "netns", "add", namespace])
            folder = self.root / f"h{number}"
            folder.mkdir()
            host = Host(number, f"10.77.0.{number + 1}", namespace, folder)
            self.hosts.append(host)
            port = self._port(host)
            run(["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace])
            run(["ip", "link", "set", port, "netns", self.switch])
            run(["ip", "-n", self.switch, "link", "set", port, "master", "br0", "up"])
            run(["ip", "-n", namespace, "link", "set", "lo", "up"])
            run(["ip", "-n", namespace, "addr", "add", f"{host.address}/24", "dev", "eth0"])
            run(["ip", "-n", namespace, "link", "set", "eth0", "up"])
        config, known = [], []
        for host in self.machines:
            make_key(host.folder / "host_key")
            self.start(host)
            public = (host.folder / "host_key.pub").read_text().split()
            known.append(f"{host.address} {public[0]} {public[1]}")
            config.append(f"Host {host.name}\n  HostName {host.address}")
        (self.root / "known_hosts").write_text("\n".join(known) + "\n")
        config.append(f"Host *\n  User root\n  IdentityFile {keys}/id\n  IdentitiesOnly yes\n"
                      f"  UserKnownHostsFile {self.root}/known_hosts\n  BatchMode yes\n")
        (self.root / "ssh_config").write_text("\n".join(config))

    def _port(self, host):
        return f"tern{self.id}v{host.number}"

    def start(self, host):
        """As by its power button: its disk is as it was, its /tmp is empty."""
        self.heal(host)
        folder = host.folder
        keys = self.root / "keys"
        (folder / "sshd_config").write_text(
            f"ListenAddress {host.address}\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {keys}/id.pub\nStrictModes no\nPasswordAuthentication no\n"
            f"MaxStartups 100\nSetEnv HOME={folder} XDG_CACHE_HOME={folder}/cache "
            f"XDG_STATE_HOME={folder}/state TERN_LIBTORCH={self.libtorch}\n")
        log = open(folder / "sshd.log", "w")
        # With its pid 1 the whole host dies.
        host.sshd = subprocess.Popen(
            ["ip", "netns", "exec", host.namespace, "unshare", "--pid", "--fork", "--kill-child",
             "--mount-proc", "--uts", "sh", "-c",
             f"hostname {host.name}; mount -t tmpfs tmpfs /tmp; "
             f"exec /usr/sbin/sshd -D -e -f {folder}/sshd_config"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        end = time.time() + 10
        while "Server listening" not in (folder / "sshd.log").read_text():
            if time.time() > end or host.sshd.poll() is not None:
                raise RuntimeError(f"sshd of {host.name}: {(folder / 'sshd.log').read_text()}")
            time.sleep(0.02)

    def stop(self, host):
        """Its power fails: nobody is told."""
        self.cut(host)
        os.killpg(host.sshd.pid, signal.SIGKILL)
        host.sshd.wait()
        host.sshd = None
        end = time.time() + 10
        while host.processes() and time.time() < end:
            time.sleep(0.02)

    def cut(self, host):
        run(["ip", "-n", self.switch, "link", "set", self._port(host), "down"])

    def heal(self, host):
        run(["ip", "-n", self.switch, "link", "set", self._port(host), "up"])

    def on_user(self, words, **options):
        """A command on the user's host, started."""
        environment = dict(os.environ, TERN_SSH_CONFIG=str(self.root / "ssh_config"),
                           HOME=str(self.user.folder), XDG_STATE_HOME=str(self.user.folder / "state"),
                           XDG_RUNTIME_DIR=str(self.user.folder),
                           TERN_LIBTORCH=str(self.libtorch))
        return subprocess.Popen(["ip", "netns", "exec", self.user.namespace] + words,
                                env=environment, cwd=self.user.folder, text=True,
                                stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def close(self):
        for host in self.hosts:
            if host.sshd is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(host.sshd.pid, signal.SIGKILL)
                host.sshd.wait()
            for pid, _ in host.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for namespace in [host.namespace for host in self.hosts] + [self.switch]:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
        shutil.rmtree(self.root, ignore_errors=True)


def make_key(file):
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)])


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done
