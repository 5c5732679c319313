# torch.save + fsync and torch.load of the bytes that checkpoint_bench saves; medians of the rounds.
# usage: python torch_checkpoint.py [MiB per round, default 1024] [rounds, default 5] [folder, default .]
import os, sys, time, statistics, torch

mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
path = os.path.join(sys.argv[3] if len(sys.argv) > 3 else ".", "torch_checkpoint.pt")
numel = 768 * 3072 + 768
count = max(1, (mib << 20) // (numel * 4))
state = {f"layer{i}/weight": torch.randn(numel) for i in range(count)}
gigabytes = count * numel * 4 / 1e9


def drop_cache():
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def save():
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def load():
    torch.load(path, weights_only=True)


def load_mmap():  # touched, as a load into other memory would
    for tensor in torch.load(path, weights_only=True, mmap=True).values():
        tensor.clone()


times = {}
for _ in range(rounds):
    if os.path.exists(path):
        os.unlink(path)
    for name, work, cold in (("torch.save + fsync", save, False), ("torch.load, cold", load, True),
                             ("torch.load, warm", load, False), ("torch.load mmap, cold", load_mmap, True),
                             ("torch.load mmap, warm", load_mmap, False)):
        if cold:
            drop_cache()
        begin = time.perf_counter()
        work()
        times.setdefault(name, []).append(time.perf_counter() - begin)
os.unlink(path)
print(f"torch {torch.__version__}: {count} tensors, {gigabytes * 1e9 / 2**20:.0f} MiB")
for name, values in times.items():
    median = statistics.median(values)
    print(f"{name:28} {median:7.3f} s  {gigabytes / median:6.2f} GB/s   "
          f"(best {gigabytes / min(values):.2f}, worst {gigabytes / max(values):.2f})")
