#include "launcher/process/files/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/files/deepspeed_folder.h"
#include "core/status/error.h"
#include "core/text/utf8.h"
#include "core/values/index.h"
#include "launcher/process/files/input_file.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRuns = "runs";
constexpr const char* kLatest = "latest";

[[noreturn]] void throw_errno(const char* operation, const fs::path& path, int error) {
  throw IoError(fmt::format("{} {}: {}", operation, path.string(), std::strerror(error)));
}

void write_fully(int fd, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno != EINTR) {
      throw_errno("writing", path, errno);
    }
    text.remove_prefix(wrote > 0 ? to_size(wrote) : 0);
  }
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw IoError(fmt::format("making the run directory {}: {}; choose another with --run-dir",
                              path.string(), error.message()));
  }
}

fs::path make_new(const fs::path& runs, const std::string& name) {
  make_directories(runs);
  for (int attempt = 1;; ++attempt) {
    const fs::path path = runs / (attempt == 1 ? name : fmt::format("{}-{}", name, attempt));
    if (mkdir(path.c_str(), 0777) == 0) {
      return path;
    }
    if (errno != EEXIST) {
      throw_errno("making the run directory", path, errno);
    }
  }
}

// Returns the numbers of a name "20260102-100000-2": date, time, and which of that second it is.
std::vector<int64_t> numbers_of(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::vector<int64_t> out;
  for (const char* at = text.data(); at < end; ++at) {
    int64_t number = 0;
    at = std::from_chars(at, end, number).ptr;
    out.push_back(number);
  }
  return out;
}

void point_latest_at(const fs::path& run, const fs::path& runs) {
  const fs::path latest = runs / kLatest;
  const fs::path fresh = runs / fmt::format(".latest.{}", getpid());
  std::error_code error;
  fs::create_directory(runs, error);
  fs::remove(fresh, error);
  const bool beside = run.parent_path() == runs;  // so that the folder can be moved whole
  fs::create_symlink(beside ? run.filename() : run, fresh, error);
  if (!error) {
    fs::rename(fresh, latest, error);
  }
  if (error) {
    fs::remove(fresh, error);  // a convenience: where links do not work, runs still do
  }
}

// Without a name, so that nothing is left by who is killed; where the file system cannot do that,
// with one for a moment. Not valid, with errno, if no file can be made.
Fd nameless_file(const fs::path& directory) {
  Fd fd(open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  const fs::path path = directory / fmt::format(".probe.{}", getpid());
  fd = Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.valid()) unlink(path.c_str());
  return fd;
}

// A full or read-only disk should be found before any rank starts. Small files may fit where the
// metrics of a run do not, so ask for some room.
void prove_writable(const fs::path& directory) {
  constexpr off_t kRoom = 1 << 20;
  const Fd fd = nameless_file(directory);
  if (!fd.valid()) {
    throw_io_error("writing into the run directory", directory.string(), errno);
  }
  const int error = posix_fallocate(fd.get(), 0, kRoom);
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
    throw_io_error("writing into the run directory", directory.string(), error);
  }
}

// Ranks are told it in a message, whose texts are UTF-8.
void require_utf8(const fs::path& directory) {
  const std::string name = directory.string();
  if (first_invalid_utf8(name) == std::string::npos) return;
  throw IoError(fmt::format(
      "the run directory {} has a name that is no UTF-8; choose another --run-dir", as_utf8(name)));
}

// What is written later must not find a pipe or a device there, which could make us wait for ever.
void refuse_odd_files(const fs::path& directory) {
  for (const char* const name :
       {"config.json", "metrics.jsonl", "metrics.csv", "plan.json", "report.json", "committed.json",
        "loss.svg", "logs/dslaunch.log"}) {
    struct stat info {};
    const fs::path path = directory / name;
    if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) continue;
    throw IoError(fmt::format(
        "the run directory's {} is {}, where a plain file is written; move it away or choose "
        "another --run-dir",
        path.string(),
        S_ISDIR(info.st_mode)    ? "a directory"
        : S_ISFIFO(info.st_mode) ? "a FIFO"
                                 : "a device or socket"));
  }
}

// A file without a name leaves nothing behind if we are killed. Where the file system has none of
// these (NFS), it gets `named` at once.
Fd open_unnamed(const fs::path& directory, const fs::path& named) {
  Fd fd(open(directory.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  if (!fd.valid() && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    fd = Fd(open(named.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  }
  if (!fd.valid()) {
    throw_errno("opening", named, errno);
  }
  return fd;
}

void give_name(int fd, const fs::path& path, const fs::path& named) {
  const std::string self = fmt::format("/proc/self/fd/{}", fd);
  const auto link_to = [&](const fs::path& name) {
    return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
  };
  std::error_code error;
  if (!fs::exists(named, error)) {
    if (link_to(path) == 0) {
      return;
    }
    if (errno != EEXIST || link_to(named) != 0) {
      throw_errno("naming", path, errno);
    }
  }
  if (rename(named.c_str(), path.c_str()) != 0) {
    throw_errno("renaming to", path, errno);
  }
}

}  // namespace

fs::path without_latest(const fs::path& path) {
  fs::path out;
  for (const fs::path& part : path) {
    const fs::path next = out / part;
    std::error_code error;
    const bool is_link = part == kLatest && fs::is_symlink(next, error);
    out = is_link ? out / fs::read_symlink(next, error) : next;
  }
  return out;
}

// A FIFO would make us wait for a reader.
AppendFile::AppendFile(const fs::path& path)
    : path_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666)) {
  struct stat info {};
  if (!fd_.valid() || fstat(fd_.get(), &info) != 0) {
    throw_errno("opening", path, errno);
  }
  if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) {
    throw IoError(fmt::format("opening {}: it is a pipe, and not a file that can be appended to",
                              path.string()));
  }
}

void AppendFile::flush() {
  while (!rest_.empty()) {
    const ssize_t wrote = write(fd_.get(), rest_.data(), rest_.size());
    if (wrote < 0 && errno != EINTR) throw_errno("writing", path_, errno);
    rest_.erase(0, wrote > 0 ? to_size(wrote) : 0);
  }
}

void write_whole_file(const fs::path& path, std::string_view text) {
  const fs::path named = fmt::format("{}.tmp.{}", path.string(), getpid());
  const Fd fd = open_unnamed(path.parent_path(), named);
  try {
    write_fully(fd.get(), text, path);
    give_name(fd.get(), path, named);
  } catch (...) {
    unlink(named.c_str());
    throw;
  }
}

std::optional<fs::path> newest_resumable_run(const fs::path& here, std::string_view stem) {
  const std::string prefix = fmt::format("{}-", stem);
  std::optional<fs::path> newest;
  std::vector<int64_t> newest_when;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(here / kRuns, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(prefix) && name.size() > prefix.size() &&
                      name.find_first_not_of("0123456789-", prefix.size()) == std::string::npos;
    const fs::path checkpoints = entry.path() / "checkpoints";
    if (!ours || !fs::is_directory(checkpoints, error) || fs::is_empty(checkpoints, error))
      continue;
    std::vector<int64_t> when = numbers_of(std::string_view(name).substr(prefix.size()));
    if (!newest || newest_when < when) {
      newest = entry.path();
      newest_when = std::move(when);
    }
  }
  return newest;
}

void refuse_deepspeed_folder(const fs::path& path) {
  const std::string advice = deepspeed_advice(RealFileSystem(), path.string());
  if (!advice.empty()) throw Unsupported(fmt::format("--run-dir {}", advice));
}

RunDirectory RunDirectory::open(const std::optional<fs::path>& wanted, const fs::path& here,
                                std::string_view stem, std::string_view local_time) {
  fs::path path;
  if (wanted) {
    path = (here / *wanted).lexically_normal();
    require_utf8(path);
    make_directories(path);
  } else {
    require_utf8(here);
    path = make_new(here / kRuns, fmt::format("{}-{}", stem, local_time));
  }
  make_directories(path / "logs");
  refuse_odd_files(path);
  prove_writable(path);
  return {std::move(path), here};
}

void RunDirectory::become_latest() const { point_latest_at(path_, here_ / kRuns); }

std::string RunDirectory::shown(const fs::path& path) const {
  const std::string relative = path.lexically_relative(here_).string();
  return relative.empty() || relative.starts_with("..") ? path.string() : relative;
}

fs::path RunDirectory::rank_log(int rank) const {
  return path_ / "logs" / fmt::format("rank-{}.log", rank);
}

namespace {

// The tag that checkpoints/latest names; none where it is odd, as the ranks say when they read it.
std::string latest_tag(const fs::path& checkpoints) {
  constexpr size_t kLongest = 4096;
  try {
    const std::string text =
        read_input_file_if_there(checkpoints / "latest", kLongest).value_or("");
    const std::string tag = text.substr(0, text.find_first_of(" \t\r\n"));
    return tag.find('/') == std::string::npos ? tag : "";
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

int64_t newest_checkpoint_bytes(const fs::path& run_directory) {
  const fs::path checkpoints = run_directory / "checkpoints";
  const std::string tag = latest_tag(checkpoints);
  if (tag.empty()) return 0;
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(checkpoints / tag, error), end; !error && at != end;
       at.increment(error)) {
    const uintmax_t size = at->is_regular_file(error) ? at->file_size(error) : 0;
    bytes += error ? 0 : static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace ds
