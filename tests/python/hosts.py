"""Hosts made of network namespaces on one switch, and ranks of torch.distributed on them. Needs root."""
import ctypes
import itertools
import os
import socket
import subprocess
import sys
import tempfile

CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x04000000, 0x08000000, 0x40000000
PORT = 29531

_numbers = itertools.count()


def _shell(script):
    done = subprocess.run(["sh", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{script}: {done.stdout}")
    return done.stdout


def why_not():
    """Why hosts cannot be made here; "" when they can."""
    if os.geteuid() != 0:
        return "several hosts need network namespaces, which only root makes"
    probe = f"sccl{os.getpid()}probe"
    try:
        _shell(f"ip netns add {probe}; ip netns del {probe}")
    except (RuntimeError, OSError) as error:
        return f"no network namespaces here: {error}"
    return ""


class Place:
    """A host as a rank enters it: the rank has no other threads yet that matter."""

    def __init__(self, space, name):
        self.space, self.name = space, name

    def enter(self):
        library = ctypes.CDLL(None, use_errno=True)
        with open(f"/var/run/netns/{self.space}", encoding="ascii") as space:
            if library.setns(space.fileno(), CLONE_NEWNET) != 0 or library.unshare(CLONE_NEWUTS | CLONE_NEWIPC) != 0:
                raise OSError(ctypes.get_errno(), f"entering {self.space}")
        socket.sethostname(self.name)


class Hosts:
    """`count` hosts named a, b, c..., reached at 10.78.0.1, 10.78.0.2..."""

    def __init__(self, count):
        self.prefix = f"sccl{os.getpid()}p{next(_numbers)}"
        self.names = [chr(ord("a") + host) for host in range(count)]
        self.count = count

    def __enter__(self):
        hub = self.prefix + "hub"
        script = f"ip netns add {hub}; ip -n {hub} link add name hub type bridge; ip -n {hub} link set hub up; "
        for host in range(self.count):
            own = self._space(host)
            script += (f"ip netns add {own}; ip -n {own} link set lo up; "
                       f"ip -n {hub} link add name p{host} type veth peer name eth0 netns {own}; "
                       f"ip -n {hub} link set p{host} master hub up; "
                       f"ip -n {own} addr add {self.address(host)}/24 dev eth0; ip -n {own} link set eth0 up; ")
        try:
            _shell(script)
        except RuntimeError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        spaces = [self._space(host) for host in range(self.count)] + [self.prefix + "hub"]
        _shell("; ".join(f"ip netns del {space} || true" for space in spaces))

    def _space(self, host):
        return f"{self.prefix}h{host}"

    def address(self, host):
        return f"10.78.0.{host + 1}"

    def place(self, host):
        return Place(self._space(host), self.names[host])

    def store(self):
        """Of ranks whose rank 0 is on the first host."""
        return f"tcp://{self.address(0)}:{PORT}"

    def set_link(self, host, state):
        """Pulls ("down") or plugs ("up") a host's cable."""
        _shell(f"ip -n {self.prefix}hub link set p{host} {state}")

    def start(self, host, arguments, **options):
        """A program on a host, in a file system that knows the names of all hosts."""
        names = "127.0.0.1 localhost\n" + "".join(f"{self.address(other)} {name}\n" for other, name in enumerate(self.names))
        file = tempfile.NamedTemporaryFile("w", prefix=self.prefix)  # lives as long as the process object
        file.write(names)
        file.flush()
        script = 'mount --bind "$1" /etc/hosts; hostname "$2"; shift 2; exec "$@"'
        process = subprocess.Popen(["ip", "netns", "exec", self._space(host), "unshare", "--mount", "--uts", "--ipc", "sh", "-ec",
                                    script, "sh", file.name, self.names[host], *arguments], **options)
        process.names = file
        return process


def main_or_skip(namespace):
    import ranks
    reason = why_not()
    if reason:
        print(f"SKIPPED: {reason}")
        sys.exit(0)
    ranks.main(namespace)
