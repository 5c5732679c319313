// How processes become a group: rank 0 makes a named segment, everybody publishes itself in it, and
// when all have come the name is removed.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <thread>

#include "comm/shm/group.h"
#include "comm/shm/process_world.h"
#include "core/text/hex.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"

namespace ds {
namespace {

using detail::Header;
using detail::ProcessId;
using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kGatherRound{10};

class NamedRegion final : public detail::ShmRegion {
 public:
  NamedRegion(const Fd& fd, size_t bytes) : mapping_(fd, bytes, "shared segment") {}
  std::byte* base() const override { return mapping_.base(); }

 private:
  const detail::ShmMapping mapping_;
};

struct Joining {
  std::string name;  // with the leading slash of shm_open
  int rank, size;
  detail::ShmLayout layout;
  SteadyClock::time_point deadline;

  [[noreturn]] void fail(const std::string& text) const {
    throw CommError(
        fmt::format("open_shm_group: rank {} of {}, segment {}: {}", rank, size, name, text));
  }
  // What the system refuses us is nobody's fault, and may be over when the start is tried again.
  [[noreturn]] void fail_system(const std::string& call) const {
    throw IoError(fmt::format("open_shm_group: rank {} of {}, segment {}: {}", rank, size, name,
                              detail::system_error(call)));
  }
  void check_deadline(const std::string& waiting_for) const {
    if (SteadyClock::now() >= deadline) fail("timed out waiting for " + waiting_for);
  }
};

ProcessId creator_of(const Header& header) {
  return {header.creator_pid.load(std::memory_order_acquire),
          header.creator_started.load(std::memory_order_acquire)};
}

// Opens the segment if it exists, is ours alone and has its full size; an invalid result means "not
// yet".
Fd open_segment(const Joining& join) {
  Fd fd(uninterrupted([&] { return shm_open(join.name.c_str(), O_RDWR | O_CLOEXEC, 0); }));
  if (!fd.valid()) {
    if (errno == ENOENT) return {};
    join.fail_system("shm_open");
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) join.fail_system("fstat");
  if (status.st_uid != geteuid() || (status.st_mode & 0777) != 0600) {
    join.fail("exists, but is not ours with mode 0600");
  }
  if (status.st_size == 0) return {};
  if (status.st_size != static_cast<off_t>(join.layout.bytes)) {
    join.fail(fmt::format("has {} bytes, expected {}: do all ranks run the same build?",
                          status.st_size, join.layout.bytes));
  }
  return fd;
}

// A segment of this name whose maker is gone is left over from a killed start, and is removed.
void remove_leftover(const Joining& join) {
  const Fd fd = open_segment(join);
  if (fd.valid()) {
    const NamedRegion region(fd, join.layout.bytes);
    const ProcessId creator = creator_of(join.layout.header(region.base()));
    if (detail::is_running(creator)) {
      join.fail(
          fmt::format("is in use by process {}; every start needs its own name", creator.pid));
    }
  }
  if (shm_unlink(join.name.c_str()) != 0 && errno != ENOENT) {
    join.fail_system("shm_unlink");
  }
}

// The start has failed, and nothing of it may stay. The system may refuse that once, too.
void forget_name(const Joining& join) noexcept {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    if (shm_unlink(join.name.c_str()) == 0 || errno == ENOENT) return;
  }
}

Fd make_segment(const Joining& join) {
  const auto make = [&] {
    return Fd(uninterrupted(
        [&] { return shm_open(join.name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); }));
  };
  Fd fd = make();
  if (!fd.valid() && errno == EEXIST) {
    remove_leftover(join);
    fd = make();
  }
  if (!fd.valid()) join.fail_system("shm_open");
  return fd;
}

std::shared_ptr<detail::ShmRegion> create(const Joining& join) {
  const Fd fd = make_segment(join);
  try {
    // The umask may have taken bits away; peers insist on exactly these.
    if (fchmod(fd.get(), 0600) != 0) join.fail_system("fchmod");
    const auto grow = [&] { return ftruncate(fd.get(), static_cast<off_t>(join.layout.bytes)); };
    if (uninterrupted(grow) != 0) {
      join.fail_system("ftruncate");
    }
    detail::commit_pages(fd, 0, join.layout.bytes, "open_shm_group: /dev/shm");
    auto region = std::make_shared<NamedRegion>(fd, join.layout.bytes);
    Header& header = join.layout.header(region->base());
    const ProcessId self = detail::this_process();
    header.creator_started.store(self.started, std::memory_order_release);
    header.creator_pid.store(self.pid, std::memory_order_release);
    header.size.store(join.size, std::memory_order_release);
    header.magic.store(detail::kRegionMagic, std::memory_order_release);
    return region;
  } catch (...) {
    forget_name(join);
    throw;
  }
}

std::shared_ptr<detail::ShmRegion> find(const Joining& join) {
  while (true) {
    const Fd fd = open_segment(join);
    if (fd.valid()) {
      auto region = std::make_shared<NamedRegion>(fd, join.layout.bytes);
      const Header& header = join.layout.header(region->base());
      const bool ready = header.magic.load(std::memory_order_acquire) == detail::kRegionMagic;
      // Left over from a killed start: rank 0 will replace it.
      if (ready && detail::is_running(creator_of(header))) {
        const int size = header.size.load(std::memory_order_acquire);
        if (size != join.size) join.fail(fmt::format("was made for {} ranks", size));
        return region;
      }
    }
    join.check_deadline("rank 0 to make it");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void publish(const Joining& join, std::byte* base, const detail::ShmArena& arena) {
  detail::Slot& slot = join.layout.slot(base, join.rank);
  const ProcessId self = detail::this_process();
  int expected = 0;
  if (!slot.pid.compare_exchange_strong(expected, self.pid, std::memory_order_acq_rel)) {
    join.fail(fmt::format("process {} has taken this rank already", expected));
  }
  slot.started.store(self.started, std::memory_order_relaxed);
  slot.arena_fd.store(arena.fd(), std::memory_order_relaxed);
  slot.arena_bytes.store(arena.reserved_bytes(), std::memory_order_relaxed);
  Header& header = join.layout.header(base);
  header.joined.value.fetch_add(1, std::memory_order_seq_cst);
  wake_all(header.joined);
}

std::string missing_ranks(const Joining& join, std::byte* base) {
  std::string names;
  for (int r = 0; r < join.size; ++r) {
    if (join.layout.slot(base, r).pid.load(std::memory_order_acquire) != 0) continue;
    names += fmt::format("{}{}", names.empty() ? "rank " : ", ", r);
  }
  return names.empty() ? "rank 0 to remove the name" : names;
}

// Waits for a flag of the header, watching those who have published themselves.
void await_joining(const Joining& join, std::byte* base, Flag& flag, uint32_t target) {
  while (!reached(flag, target)) {
    join.check_deadline(missing_ranks(join, base));
    for (int r = 0; r < join.size; ++r) {
      const detail::Slot& slot = join.layout.slot(base, r);
      const ProcessId peer{slot.pid.load(std::memory_order_acquire),
                           slot.started.load(std::memory_order_relaxed)};
      const bool known = peer.pid != 0 && peer.started != 0;
      if (known && !detail::is_running(peer) && !reached(flag, target)) {
        join.fail(fmt::format("rank {} (pid {}) died while the group was formed", r, peer.pid));
      }
    }
    sleep_on(flag, target, kGatherRound);
  }
}

std::vector<detail::ProcessWorld::Peer> read_peers(const Joining& join, std::byte* base) {
  std::vector<detail::ProcessWorld::Peer> peers;
  for (int r = 0; r < join.size; ++r) {
    const detail::Slot& slot = join.layout.slot(base, r);
    peers.push_back({{slot.pid.load(), slot.started.load()},
                     slot.arena_fd.load(),
                     to_size(slot.arena_bytes.load())});
  }
  return peers;
}

// Everyone is mapped: the name goes, so that nothing stays behind however we end.
void remove_name(const Joining& join, std::byte* base) {
  Header& header = join.layout.header(base);
  await_joining(join, base, header.joined, static_cast<uint32_t>(join.size));
  if (join.rank == 0) {
    if (shm_unlink(join.name.c_str()) != 0) {
      if (errno == ENOENT) join.fail("somebody else, whose start has failed, has removed it");
      join.fail_system("shm_unlink");
    }
    raise(header.unlinked, 1);
  }
  await_joining(join, base, header.unlinked, 1);
}

// Addresses are reserved, not memory: as many as the machine could fill. Where they are limited
// (ulimit -v), half of what is left goes to the arenas of all ranks, each of which every rank maps;
// the other half to all else. An arena is a file, for which ulimit -f holds, too.
size_t arena_bytes(const ShmOptions& options, int ranks) {
  if (options.arena_bytes != 0) return options.arena_bytes;
  const auto page = to_size(sysconf(_SC_PAGESIZE));
  const size_t machine = to_size(sysconf(_SC_PHYS_PAGES)) * page;
  rlimit files{};
  rlimit addresses{};
  if (getrlimit(RLIMIT_FSIZE, &files) != 0 || getrlimit(RLIMIT_AS, &addresses) != 0) return machine;
  const size_t most = std::min<size_t>(
      machine, files.rlim_cur / page * page);  // RLIM_INFINITY is the largest number
  if (addresses.rlim_cur == RLIM_INFINITY) return most;
  size_t used_pages = 0;
  std::ifstream("/proc/self/statm") >> used_pages;
  const size_t left = addresses.rlim_cur - std::min<size_t>(addresses.rlim_cur, used_pages * page);
  return std::min(most, left / 2 / to_size(ranks));
}

}  // namespace

std::unique_ptr<Communicator> open_shm_group(const std::string& name, int rank, int size,
                                             const ShmOptions& options) {
  DS_CHECK(size > 0 && rank >= 0 && rank < size, "open_shm_group: rank {} of {}", rank, size);
  DS_CHECK(!name.empty() && name.size() < 200 && name.find('/') == std::string::npos,
           "open_shm_group: \"{}\" is no segment name: 1 to 199 characters without slashes", name);
  const Joining join{"/" + name, rank, size, detail::ShmLayout(size),
                     SteadyClock::now() + options.timeout};
  auto arena = std::make_unique<detail::ShmArena>(arena_bytes(options, size));
  const auto region = rank == 0 ? create(join) : find(join);
  publish(join, region->base(), *arena);  // a second claimant of a rank leaves the start alone
  try {
    remove_name(join, region->base());
    auto peers = read_peers(join, region->base());
    auto world = std::make_shared<detail::ProcessWorld>(rank, std::move(arena), peers);
    std::vector<int> members;
    for (int r = 0; r < size; ++r) members.push_back(r);
    auto comm = std::make_unique<detail::ShmComm>(detail::ShmComm::Group{
        std::move(world), region, std::move(members), rank, options, nullptr});
    comm->barrier();  // from here on every peer watches every other
    return comm;
  } catch (...) {
    // The start has failed for all: whoever notices removes the name. It is random, so nobody
    // else's.
    forget_name(join);
    throw;
  }
}

std::string random_shm_name() {
  std::array<std::byte, 16> bytes{};
  fill_random(bytes);
  return "dslaunch-" + hex(bytes);
}

}  // namespace ds
