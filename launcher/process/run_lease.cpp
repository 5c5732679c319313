#include "launcher/process/run_lease.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "core/tasks/host.h"
#include "core/tasks/process_end.h"
#include "core/values/index.h"
#include "launcher/process/credentials.h"
#include "launcher/process/files/input_file.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTokenBytes = 16;
constexpr std::chrono::milliseconds kLookAgain{100};
constexpr std::chrono::milliseconds kSettle{
    500};  // for two that find a free lease where nothing can be locked

Time steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::string first_line_of(const std::string& path) {
  const std::string text = system_text(path);
  return text.substr(0, text.find('\n'));
}

// In clock ticks since the kernel started; 0 where there is no such process, or none that we may
// look at.
int64_t start_of_process(int64_t pid) {
  if (!std::in_range<int>(pid)) return 0;
  try {
    const auto stat = process_stat(static_cast<int>(pid));
    return stat ? static_cast<int64_t>(stat->started) : 0;
  } catch (const IoError&) {
    return 0;
  }
}

std::string kernel_id() { return first_line_of("/proc/sys/kernel/random/boot_id"); }

std::string pid_namespace() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error).string();
}

Lease own_lease() {
  const std::time_t now = std::time(nullptr);
  return {.token = to_hex(random_bytes(kTokenBytes)),
          .host = own_host_name(),
          .pid = getpid(),
          .process_start = start_of_process(getpid()),
          .kernel = kernel_id(),
          .pid_namespace = pid_namespace(),
          .since = fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(now)),
          .renewals = 0,
          .over = false,
          .exit_code = std::nullopt};
}

LeaseWitness witness_of(std::string_view text) {
  LeaseWitness out{.kernel = kernel_id(), .pid_namespace = pid_namespace(), .holder_runs = false};
  const std::optional<Lease> lease = parse_lease(text);
  out.holder_runs = lease && start_of_process(lease->pid) == lease->process_start;
  return out;
}

Fd open_lease(const fs::path& path, int more_flags) {
  Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | more_flags, 0644));
  struct stat info {};
  if (!file.valid()) throw_io_error("opening the lease of the run directory", path.string(), errno);
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    throw IoError(
        fmt::format("the lease of the run directory, {}, is no plain file", path.string()));
  }
  return file;
}

LeaseLock lock_of(const Fd& file, const fs::path& path) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  while (fcntl(file.get(), F_OFD_SETLK, &whole) != 0) {
    switch (errno) {
      case EINTR:
        continue;
      case EAGAIN:
      case EACCES:
        return LeaseLock::kHeld;
      case ENOLCK:
      case ENOSYS:
      case EOPNOTSUPP:
      case EINVAL:
        return LeaseLock::kUnsupported;
      default:
        throw_io_error("locking the lease of the run directory", path.string(), errno);
    }
  }
  return LeaseLock::kOurs;
}

std::string read_lease(const Fd& file, const fs::path& path) {
  std::string text(kLeaseBytes, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) throw_io_error("reading the lease of the run directory", path.string(), errno);
  text.resize(to_size(got));
  return text;
}

[[noreturn]] void refuse(const fs::path& path, const std::string& text) {
  const std::optional<Lease> holder = parse_lease(text);
  const bool named = holder && !holder->over;
  throw LeaseRefused(fmt::format(
      "{}: {} works here; it goes on undisturbed. End it first (dslaunch ctl stop), or choose "
      "another --run-dir",
      path.parent_path().string(),
      named ? describe(*holder) : "another dslaunch that has just begun"));
}

LeaseContest::Verdict contest(const Fd& file, const fs::path& path, LeaseLock lock,
                              const RunLease::Patience& patience) {
  LeaseContest contest;
  for (bool told = false;; std::this_thread::sleep_for(kLookAgain)) {
    const std::string text = read_lease(file, path);
    const LeaseContest::Verdict verdict = contest.look(steady_now(), lock, text, witness_of(text));
    if (verdict != LeaseContest::Verdict::kWatch) return verdict;
    if (!told && patience.watching) patience.watching(parse_lease(text).value_or(Lease{}));
    told = true;
    if (patience.interrupted && patience.interrupted()) return LeaseContest::Verdict::kRefuse;
  }
}

}  // namespace

fs::path lease_path(const fs::path& run_directory) { return run_directory / "lease.json"; }

std::optional<Lease> last_lease(const fs::path& run_directory) {
  try {
    const fs::path path = lease_path(run_directory);
    return parse_lease(read_lease(open_lease(path, 0), path));
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_launched(const fs::path& run_directory) {
  try {
    const fs::path path = lease_path(run_directory);
    const Fd file = open_lease(path, 0);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    return fcntl(file.get(), F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
  } catch (const Error&) {
    return false;
  }
}

RunLease RunLease::take(const fs::path& run_directory, const Patience& patience) {
  const fs::path path = lease_path(run_directory);
  Fd file = open_lease(path, O_CREAT);
  const LeaseLock lock = lock_of(file, path);
  if (contest(file, path, lock, patience) != LeaseContest::Verdict::kTake) {
    refuse(path, read_lease(file, path));
  }
  RunLease lease(path, std::move(file), own_lease());
  lease.write();
  if (lock == LeaseLock::kUnsupported) {
    std::this_thread::sleep_for(kSettle);
    lease.renew();  // of several, the one that wrote last has it
  }
  return lease;
}

RunLease::~RunLease() {
  if (file_.valid() && !lease_.over) end(std::nullopt);
}

void RunLease::write() const {
  const std::string text = to_text(lease_);
  write_fully(file_.get(), 0, std::as_bytes(std::span(text)), path_.string());
}

// Whether the name still stands for our file. A file that somebody has removed is put there again,
// by whoever is first.
bool RunLease::follow_name() {
  struct stat named {};
  struct stat ours {};
  if (fstat(file_.get(), &ours) != 0) throw_io_error("looking at the lease", path_.string(), errno);
  if (stat(path_.c_str(), &named) == 0)
    return named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
  if (errno != ENOENT) throw_io_error("looking at the lease", path_.string(), errno);
  Fd file(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.valid() && errno == EEXIST) return false;
  if (!file.valid()) throw_io_error("renewing the lease", path_.string(), errno);
  if (lock_of(file, path_) == LeaseLock::kHeld) return false;
  file_ = std::move(file);
  write();
  return true;
}

void RunLease::renew() {
  const bool here = follow_name();
  const std::string text =
      here ? read_lease(file_, path_) : read_lease(open_lease(path_, 0), path_);
  if (!here || is_anothers(text, lease_)) {
    const std::optional<Lease> found = parse_lease(text);
    lease_.over = true;  // nothing is left that would be ours to mark
    throw LeaseRefused(fmt::format("{}: {} has taken this run over", path_.parent_path().string(),
                                   found ? describe(*found) : "another dslaunch"));
  }
  ++lease_.renewals;
  write();
}

void RunLease::end(std::optional<int> exit_code) noexcept {
  if (lease_.over) return;
  lease_.over = true;
  lease_.exit_code = exit_code;
  try {
    write();
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace ds
