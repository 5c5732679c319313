#include "comm/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "core/status/error.h"
#include "core/values/index.h"

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

ProcessId this_process() {
  const int pid = getpid();
  const auto stat = process_stat(pid);
  return {pid, stat ? stat->started : 0};
}

bool is_running(const ProcessId& process) {
  if (process.pid <= 0) return false;
  const auto stat = process_stat(process.pid);
  return stat && stat->started == process.started;
}

ProcessEnd end_of_process(const ProcessId& process, const std::string& who) {
  auto end = ProcessEnd::of(process.pid);
  if (!end || !is_running(process))
    throw CommError(fmt::format("{} died while the group was formed", who));
  return std::move(*end);
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
