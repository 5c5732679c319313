#!/usr/bin/env python3
"""Another user of the machine looks around during a run: nothing secret to read, nothing to write.

usage: security.py FOLDER_OF_PROGRAMS           the test on one machine (77: skipped, not root)
       security.py --keeper VAULT RANK          prints a program that keeps RANK's secrets in VAULT
       security.py --look VAULT RUN PIDS...     what another user sees of RUN's files and of processes
       security.py --search VAULT FILES...      where the secrets are
       security.py --memory VAULT PIDS...       what of the ranks' secrets is in the memory of processes, and how often
       security.py --holders FILE PIDS...       which processes have the text of FILE in their memory; first this one
       security.py --capture INTERFACE FILE     writes all packets, until it is killed
       security.py --scan ADDRESSES...          open ports, and what they say in clear

The ranks are started through a program that keeps a copy of their secrets where only root can read, so
that they can be looked for everywhere else: command lines, environments, logs, files, cores.
"""
import base64
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

NOBODY, SOMEBODY = 65534, 65533
CONFIG = """{"model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8,
 "vocab_size": 256}, "data": {"train": ["corpus.txt"], "sequence_length": 8}, "train": {"steps": 5000},
 "train_batch_size": 8, "steps_per_print": 1, "optimizer": {"type": "AdamW"}}"""
# Takes the orders from standard input, keeps them, and hands them on to the real rank.
KEEPER = """#!/usr/bin/env python3
import os, sys
if sys.argv[1:2] == ["--answer"]:  # a question before the run, not a rank
    os.execv({rank!r}, [{rank!r}] + sys.argv[1:])
orders = b""
while len(orders) < 4 or len(orders) < 4 + int.from_bytes(orders[:4], "little"):
    orders += os.read(0, 1)
with open(os.path.join({vault!r}, str(os.getpid())), "wb") as out:
    out.write(orders[4:])
read, write = os.pipe()
os.write(write, orders)
os.set_inheritable(write, True)
os.dup2(read, 0)
os.execv({rank!r}, [{rank!r}] + sys.argv[1:])
"""
failures = []


def check(good, what):
    if not good:
        failures.append(what)
        print("FAILED:", what, flush=True)


def fields(message):
    """(number, bytes) of every length-delimited field of a protobuf message."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 2:
            size = number()
            yield key >> 3, message[at:at + size]
            at += size
        else:
            number()


def keeper_of(vault, rank):
    return KEEPER.format(vault=vault, rank=rank)


def spellings(secret):
    """As it is, in hexadecimal, and in base64 wherever in a longer text it may stand."""
    yield secret
    yield secret.hex().encode()
    for before in range(3):
        inner = base64.b64encode(b"x" * before + secret)
        yield inner[4 if before else 0:len(inner) // 4 * 4 - 4]


def secrets_in(vault):
    """The tokens and keys that were handed out, in every spelling one might write them in."""
    found = set()
    for path in glob.glob(vault + "/*"):
        for number, value in fields(open(path, "rb").read()):
            if number == 2:  # the token
                found.update(spellings(value))
            elif number == 11:  # the private key
                for line in value.split(b"\n"):
                    if len(line) > 30 and b"-" not in line:
                        found.update(spellings(line))
    return found


def key_number(pem):
    """The secret number of an elliptic key: 32 bytes after the header of its innermost sequence."""
    der = base64.b64decode(b"".join(line for line in pem.split(b"\n") if b"-" not in line))
    at = der.index(b"\x02\x01\x01\x04\x20") + 5
    return der[at:at + 32]


def kept_secrets(vault):
    """(pid of the rank, kind, bytes): its token, the text of its key line by line, and quarters of the number that
    this is, as it is written and as OpenSSL holds it."""
    for path in glob.glob(vault + "/*"):
        pid = int(os.path.basename(path))
        for number, value in fields(open(path, "rb").read()):
            if number == 2:
                yield pid, "token", value
            elif number == 11:
                yield from ((pid, "text", line) for line in value.split(b"\n") if len(line) > 30 and b"-" not in line)
                for digits in (key_number(value), key_number(value)[::-1]):
                    yield from ((pid, "number", digits[at:at + 8]) for at in range(0, 32, 8))


def memory_of(pid):
    """What a process can read of itself, region by region."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in open(f"/proc/{pid}/maps"):
            words = line.split()
            begin, end = (int(number, 16) for number in words[0].split("-"))
            if not words[1].startswith("r") or words[-1] in ("[vvar]", "[vsyscall]") or end > 1 << 47:
                continue
            try:
                memory.seek(begin)
                content = bytearray()
                while len(content) < end - begin and (part := memory.read(min(1 << 26, end - begin - len(content)))):
                    content += part
                yield bytes(content)
            except OSError:
                pass  # gone meanwhile, or of a device


def search_memory(vault, pids):
    """One line for each process: how many copies there are of its own secrets and of others', of keys whose PEM text
    is not known, and a token that was planted, which shows that the search can find."""
    secrets = list(kept_secrets(vault))
    planted = os.urandom(32)
    for pid in [os.getpid()] + [int(pid) for pid in pids]:
        counts = {f"{whose}-{kind}": 0 for whose in ("own", "other") for kind in ("token", "text", "number")}
        wanted = secrets if pid != os.getpid() else [(pid, "token", planted)]
        pems = 0
        found = [0] * len(wanted)
        for content in memory_of(pid):
            pems += content.count(b"-----BEGIN PRIVATE KEY-----\nM")
            for index, (_, _, secret) in enumerate(wanted):
                found[index] += content.count(secret)
        for (owner, kind, _), count in zip(wanted, found):
            name = f"{'own' if owner == pid else 'other'}-{kind}"
            counts[name] = max(counts[name], count)
        program = read(f"/proc/{pid}/cmdline").split(b"\0")
        role = os.path.basename(program[0].decode()) + ("-agent" if b"agent" in program else "")
        yield " ".join([role if pid != os.getpid() else "planted"] + [f"{k}={v}" for k, v in counts.items()] + [f"pems={pems}"])


def holders_of(path, pids):
    text = read(path).strip()
    for pid in [os.getpid()] + [int(pid) for pid in pids]:
        if any(text in content for content in memory_of(pid)):
            yield "planted" if pid == os.getpid() else f"{pid} {read(f'/proc/{pid}/cmdline')}"


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(32 << 20)
    except OSError:
        return b""


def tells(path, secrets):
    content = read(path)
    return any(secret in content for secret in secrets)


def files_under(*roots):
    for root in roots:
        for folder, _, names in os.walk(root):
            yield folder
            for name in names:
                yield os.path.join(folder, name)


def ask(name):
    """What a control socket answers to a request for the status."""
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(3)
        try:
            connection.connect(name)
            connection.sendall(b'{"verb": "status"}\n')
            while part := connection.recv(1 << 16):
                answer += part
        except OSError:
            pass
    return answer


def look_around(run, secrets, pids):
    """What a user sees and must not: one line each."""
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            for name in ("cmdline", "environ"):
                if tells(f"/proc/{pid}/{name}", secrets):
                    yield f"a secret is in /proc/{pid}/{name}"
    for pid in pids:
        for name in ("environ", "mem", "fd/0", "fd/3"):
            if os.access(f"/proc/{pid}/{name}", os.R_OK):
                yield f"/proc/{pid}/{name} can be read"
    for path in files_under(run, "/dev/shm", "/tmp", "/var/tmp"):
        mine = path.startswith(run) or "dslaunch" in path
        if mine and os.access(path, os.W_OK) and not os.path.islink(path):
            yield f"{path} can be written"
        if os.path.isfile(path) and os.path.getsize(path) < 32 << 20 and tells(path, secrets):
            yield f"a secret is in {path}"
    for line in open("/proc/net/unix"):
        name = line.split()[-1]
        if name.startswith("@dslaunch"):
            answer = ask(name.replace("@", "\0", 1))
            if b"true" in answer or os.path.basename(run).encode() in answer:
                yield f"the socket {name} answers {answer[:80]}"
    for path in glob.glob("/dev/shm/*dslaunch*"):
        if os.access(path, os.R_OK):
            yield f"{path} can be read"


def as_user(user, function, *arguments):
    """The lines that a generator yields when run by another user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        with os.fdopen(writing, "w") as out:
            for line in function(*arguments):
                print(line, file=out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        seen = lines.read().splitlines()
    check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the second user could not look")
    return seen


def children_of(pid):
    return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]


def wait_for(what, condition):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            check(False, f"waited 30 s for {what}")
            return
        time.sleep(0.02)


def copy_for_everybody(programs):
    """The second user need not be let into the folder where they were built, such as one under /root."""
    folder = tempfile.mkdtemp(prefix="programs-")
    os.chmod(folder, 0o755)
    for name in "dslaunch", "fake_rank":
        shutil.copy(os.path.join(programs, name), folder)
    return folder


class Run:
    """dslaunch in the background, by a user, in a folder that others may look into."""

    def __init__(self, programs, user):
        self.folder = tempfile.mkdtemp(prefix="security-")
        self.vault = tempfile.mkdtemp(prefix="vault-")
        os.chmod(self.folder, 0o755)
        os.chown(self.vault, user, user)
        keeper = os.path.join(self.folder, "keeper")
        with open(keeper, "w") as out:
            out.write(keeper_of(self.vault, os.path.join(programs, "fake_rank")))
        os.chmod(keeper, 0o755)
        with open(os.path.join(self.folder, "train.json"), "w") as out:
            out.write(CONFIG)
        os.chown(self.folder, user, user)
        environment = dict(os.environ, DSLAUNCH_RANKD=keeper, FAKE_RANK="steps=50000")
        self.out = open(os.path.join(self.folder, "out"), "wb")
        # Every core that anyone would leave is wanted.
        self.process = subprocess.Popen(
            ["bash", "-c", "ulimit -c unlimited; exec \"$0\" train.json --run-dir run --num-ranks 2 "
             "--max-restarts 0", os.path.join(programs, "dslaunch")],
            cwd=self.folder, env=environment, stdout=self.out, stderr=self.out, user=user, group=user,
            extra_groups=[])
        metrics = os.path.join(self.folder, "run", "metrics.jsonl")
        wait_for("the first step", lambda: read(metrics) != b"")
        self.pids = [self.process.pid] + children_of(self.process.pid)
        check(len(self.pids) == 3, f"a launcher and two ranks, not {self.pids}")

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.out.close()
        shutil.rmtree(self.folder)
        shutil.rmtree(self.vault)


def another_user_sees_nothing(programs):
    run = Run(programs, user=0)
    try:
        secrets = secrets_in(run.vault)
        sockets = [line.split()[-1] for line in open("/proc/net/unix") if "@dslaunch" in line]
        check(any(b"true" in ask(name.replace("@", "\0", 1)) for name in sockets),
              "its own user can ask the run for its status")
        check(len(secrets) >= 6, f"two ranks have tokens, seen {len(secrets)} spellings")
        # The search must be able to find.
        planted = os.path.join(run.folder, "planted")
        with open(planted, "wb") as out:
            out.write(b"token: " + sorted(secrets)[0])
        seen = as_user(NOBODY, look_around, run.folder, secrets, run.pids)
        check([line for line in seen if planted in line] != [], "the planted secret was not found")
        for line in seen:
            check(planted in line, f"another user: {line}")
        os.remove(planted)
        for pid in run.pids[1:]:
            check(b"Max core file size 1 1 " in b" ".join(read(f"/proc/{pid}/limits").split()),
                  f"rank {pid} may leave a core")
        os.kill(run.pids[1], signal.SIGSEGV)
        check(run.process.wait(40) == 128 + signal.SIGSEGV or run.process.returncode != 0,
              "a crash of a rank is an error")
        for path in files_under(run.folder):
            check("core" not in os.path.basename(path) or path.endswith(".json"), f"a core: {path}")
            check(not os.path.isfile(path) or not tells(path, secrets), f"a secret is in {path}")
    finally:
        run.end()


def read_environment(pid):
    try:
        open(f"/proc/{pid}/environ", "rb").read()
        yield "read"
    except PermissionError:
        yield "refused"


def the_same_user_does_not_see_the_launcher(programs):
    run = Run(programs, user=SOMEBODY)
    try:
        check(as_user(SOMEBODY, read_environment, run.pids[0]) == ["refused"],
              "the launcher's memory is open to its own user")
        for line in as_user(NOBODY, look_around, run.folder, secrets_in(run.vault), run.pids):
            check(False, f"another user: {line}")
    finally:
        run.end()


def capture(interface, path):
    everything = 3  # ETH_P_ALL
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(everything))
    packets.bind((interface, 0))
    with open(path, "wb", buffering=0) as out:
        while True:
            out.write(packets.recv(1 << 16))


def answer_in_clear(address, port):
    """None where nobody listens, else what is answered to those who speak no TLS."""
    said = b""
    for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4" + b"\0" * 5, b""):
        with socket.socket() as connection:
            connection.settimeout(2)
            if connection.connect_ex((address, port)) != 0:
                return said if said else None
            try:
                connection.sendall(greeting)
                said += connection.recv(4096) or b"-"
            except OSError:
                said += b"-"
    return said


def scan(addresses):
    with ThreadPoolExecutor(64) as pool:
        for address in addresses:
            found = pool.map(lambda port: (port, answer_in_clear(address, port)), range(1, 65536))
            for port, said in found:
                if said is not None:
                    print(address, port, said)


def main():
    task, rest = sys.argv[1], sys.argv[2:]
    if task == "--keeper":
        print(keeper_of(*rest))
    elif task == "--look":
        secrets = secrets_in(rest[0])
        print("\n".join(as_user(NOBODY, look_around, rest[1], secrets, rest[2:])))
    elif task == "--search":
        secrets = secrets_in(rest[0])
        print(f"{len(secrets)} secrets")
        print("\n".join(path for path in files_under(*rest[1:]) if tells(path, secrets)))
        print("\n".join(path for path in rest[1:] if os.path.isfile(path) and tells(path, secrets)))
    elif task == "--memory":
        print("\n".join(search_memory(*rest[:1], rest[1:])))
    elif task == "--holders":
        print("\n".join(holders_of(rest[0], rest[1:])))
    elif task == "--capture":
        capture(*rest)
    elif task == "--scan":
        scan(rest)
    else:
        return test_on_one_machine(os.path.realpath(task))
    return 1 if failures else 0


def test_on_one_machine(programs):
    if os.geteuid() != 0:
        print("skipped: only root can become a second user")
        return 77
    copy = copy_for_everybody(programs)
    try:
        another_user_sees_nothing(copy)
        the_same_user_does_not_see_the_launcher(copy)
    finally:
        shutil.rmtree(copy)
    print("ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
