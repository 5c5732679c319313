#include "comm/shm/segment.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/index.h"

namespace ds::detail {

std::string system_error(const std::string& call) {
  return fmt::format("{}: {}", call, std::generic_category().message(errno));
}

ShmMapping::ShmMapping(const Fd& fd, size_t bytes, const std::string& what) : bytes_(bytes) {
  void* const base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (base == MAP_FAILED) {
    throw IoError(fmt::format("{}: mapping {} bytes: {}", what, bytes, system_error("mmap")));
  }
  base_ = static_cast<std::byte*>(base);
}

ShmMapping::~ShmMapping() { munmap(base_, bytes_); }

Fd make_sealed_memory(size_t bytes, const std::string& what) {
  Fd fd(memfd_create("dslaunch", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) throw IoError(fmt::format("{}: {}", what, system_error("memfd_create")));
  if (uninterrupted([&] { return ftruncate(fd.get(), static_cast<off_t>(bytes)); }) != 0) {
    throw IoError(fmt::format("{}: {} bytes: {}", what, bytes, system_error("ftruncate")));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw IoError(fmt::format("{}: {}", what, system_error("F_ADD_SEALS")));
  }
  return fd;
}

void commit_pages(const Fd& fd, size_t begin, size_t end, const std::string& what) {
  if (end <= begin) return;
  const int result = uninterrupted([&] {
    return fallocate(fd.get(), 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  });
  if (result != 0) {
    throw IoError(
        fmt::format("{}: {} more bytes refused: {}", what, end - begin, system_error("fallocate")));
  }
}

uint64_t start_time_of(int pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const Fd file(uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!file.valid() && (errno == ENOENT || errno == ESRCH)) return 0;
  if (!file.valid()) throw IoError(system_error(path));
  std::array<char, 1024> buffer{};
  const ssize_t length =
      uninterrupted([&] { return read(file.get(), buffer.data(), buffer.size()); });
  if (length == 0 || (length < 0 && errno == ESRCH)) return 0;
  if (length < 0) throw IoError(system_error(path));
  std::string_view text(buffer.data(), to_size(length));
  // proc(5): the command in parentheses may hold anything; starttime is field 22, the 20th after
  // it.
  const size_t close_paren = text.rfind(')');
  if (close_paren == std::string_view::npos) return 0;
  text.remove_prefix(close_paren + 1);
  for (int field = 0; field < 20; ++field) {
    const size_t space = text.find(' ', field == 0 ? 0 : 1);
    if (space == std::string_view::npos) return 0;
    text.remove_prefix(space);
  }
  uint64_t started = 0;
  std::from_chars(text.data() + 1, text.data() + text.size(), started);
  return started;
}

ProcessId this_process() {
  const int pid = getpid();
  return {pid, start_time_of(pid)};
}

bool is_running(const ProcessId& process) {
  return process.pid > 0 && start_time_of(process.pid) == process.started;
}

Fd watch_process(const ProcessId& process, const std::string& who) {
  Fd watch(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!watch.valid() && errno != ESRCH) {
    throw IoError(fmt::format("{}: {}", who, system_error("pidfd_open")));
  }
  if (!watch.valid() || !is_running(process))
    throw CommError(fmt::format("{} died while the group was formed", who));
  return watch;
}

bool has_ended(const Fd& watch) {
  pollfd request{watch.get(), POLLIN, 0};
  return poll(&request, 1, 0) > 0;
}

Fd open_peer_memory(const ProcessId& of, int number, size_t bytes, const std::string& who) {
  const std::string path = fmt::format("/proc/{}/fd/{}", of.pid, number);
  Fd fd(uninterrupted([&] { return open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd.valid() && errno != ENOENT && errno != ESRCH) {
    throw IoError(fmt::format("{}: its memory: {}", who, system_error(path)));
  }
  if (!fd.valid() || !is_running(of))
    throw CommError(fmt::format("{} died before its memory was mapped", who));
  struct stat status {};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (fstat(fd.get(), &status) != 0) throw IoError(system_error("fstat of " + path));
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0 || status.st_size < static_cast<off_t>(bytes)) {
    throw CommError(
        fmt::format("{}: {} is not sealed memory of ours of {} bytes", who, path, bytes));
  }
  return fd;
}

}  // namespace ds::detail
