#include "offload/swap_file.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/status/failpoint.h"
#include "core/tasks/host.h"
#include "core/values/index.h"

namespace ds {

namespace {

// As much of the first page as there is.
std::vector<std::byte> first_page(int fd, const std::string& path) {
  std::vector<std::byte> page(to_size(kSwapPage));
  const ssize_t got = ::pread(fd, page.data(), page.size(), 0);
  if (got < 0) throw_io_error("read", path, errno);
  page.resize(to_size(got));
  return page;
}

// A process that dies while it makes the file leaves nothing in it, or zeros.
bool is_blank(std::span<const std::byte> page) {
  return std::ranges::all_of(page, [](std::byte b) { return b == std::byte{0}; });
}

std::string owner_in(std::span<const std::byte> page, const std::string& path) {
  try {
    const SwapFileHeader header = parse_swap_file_header(page, path);
    return fmt::format("{}, process {} on {}", to_string(header.owner), header.pid, header.host);
  } catch (const Error&) {
    return "a process that its header does not tell";
  }
}

bool is_at_path(int fd, const std::string& path) {
  struct stat here {};
  struct stat there {};
  return ::fstat(fd, &here) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// False where another one has it. Who removes what dead ranks left has each for a moment.
bool lock_soon(int fd, const std::string& path) {
  constexpr int kAttempts = 20;
  for (int attempt = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (errno != EWOULDBLOCK) throw_io_error("lock swap file", path, errno);
    if (attempt == kAttempts) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string start_of_names(const SwapOwner& owner) { return owner.job + ".rank-"; }

}  // namespace

SwapFile::SwapFile(const std::string& directory, const SwapOwner& owner, int64_t bytes)
    : directory_(directory),
      path_(join_path(directory, fmt::format("{}{}.swap", start_of_names(owner), owner.rank))),
      owner_(owner),
      file_bytes_(kSwapPage + bytes) {
  DS_CHECK(bytes >= 0, "swap file {}: {} bytes, expected at least 0", path_, bytes);
  DS_CHECK(owner.job.find('/') == std::string::npos, "swap file: job {:?} is no name of a file",
           owner.job);
  try {
    create();
    remove_leftovers();
    reserve();
    open_for_io();
  } catch (const Error&) {
    if (fd_.valid() && is_at_path(fd_.get(), path_))
      ::unlink(path_.c_str());  // nothing partial stays
    throw;
  }
}

SwapFile::~SwapFile() {
  if (is_at_path(fd_.get(), path_)) ::unlink(path_.c_str());
}

void SwapFile::create() {
  constexpr int kAttempts = 8;  // others may make and remove it at the same time
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    fd_ = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const int error = errno;
    if (!fd_.valid() && error == EEXIST) {
      replace_what_is_there();
      continue;
    }
    if (!fd_.valid()) throw_io_error("create swap file", path_, error);
    DS_FAILPOINT("swap.created");
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw_io_error("lock swap file", path_, errno);
      continue;  // another one takes it for a leftover
    }
    if (is_at_path(fd_.get(), path_)) return;
  }
  throw IoError(fmt::format(
      "create swap file {}: another process makes and removes it at the same time", path_));
}

// Removes what a dead process left.
void SwapFile::replace_what_is_there() {
  const Fd old(::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!old.valid() && errno == ENOENT) return;  // gone meanwhile
  if (!old.valid()) throw_io_error("open swap file", path_, errno);
  struct stat info {};
  if (::fstat(old.get(), &info) != 0) throw_io_error("stat", path_, errno);
  if (!S_ISREG(info.st_mode)) {
    throw NotAFile(fmt::format("swap file {}: what is there is no regular file", path_));
  }
  refuse_what_lives(old.get());
  const std::vector<std::byte> page = first_page(old.get(), path_);
  if (!is_blank(page) && !has_swap_magic(page)) {
    throw DataError(fmt::format(
        "swap file {}: what is there is no swap file and is not removed: move it away, or name "
        "another directory (nvme_path)",
        path_));
  }
  if (!is_at_path(old.get(), path_)) return;  // another one has replaced it
  spdlog::info("swap file {}: replaces what {} left", path_, owner_in(page, path_));
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) throw_io_error("remove", path_, errno);
  DS_FAILPOINT("swap.replaced");
}

void SwapFile::refuse_what_lives(int fd) const {
  if (lock_soon(fd, path_)) return;
  throw IoError(
      fmt::format("swap file {} is in use by {}: end it, or name another directory (nvme_path)",
                  path_, owner_in(first_page(fd, path_), path_)));
}

// A restart may have fewer ranks, or have them on other hosts: nobody else would replace what those
// of the epochs before left.
void SwapFile::remove_leftovers() const {
  const std::string start = start_of_names(owner_);
  for (const auto& [name, type] : RealFileSystem().list(directory_)) {
    const std::string path = join_path(directory_, name);
    if (name.starts_with(start) && name.ends_with(".swap") && path != path_) remove_leftover(path);
  }
}

void SwapFile::remove_leftover(const std::string& path) const {
  const Fd left(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!left.valid() || ::flock(left.get(), LOCK_EX | LOCK_NB) != 0) return;  // gone, or alive
  std::vector<std::byte> page;
  try {
    page = first_page(left.get(), path);
    const SwapOwner owner = parse_swap_file_header(page, path).owner;
    if (owner.job != owner_.job || owner.epoch >= owner_.epoch) return;
  } catch (const Error&) {
    return;  // none of ours, or its owner has only begun to make it
  }
  if (!is_at_path(left.get(), path) || ::unlink(path.c_str()) != 0) return;
  spdlog::info("swap file {}: removed, {} left it", path, owner_in(page, path));
}

void SwapFile::reserve() {
  write_fully(
      fd_.get(), 0,
      encode(SwapFileHeader{
          .owner = owner_, .file_bytes = file_bytes_, .pid = ::getpid(), .host = own_host_name()}),
      path_);
  DS_FAILPOINT("swap.header_written");
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      std::cmp_less(limit.rlim_cur, file_bytes_)) {
    throw DiskFull(fmt::format(
        "swap file {}: needs {} bytes, files may have {} (RLIMIT_FSIZE): raise it (ulimit -f)",
        path_, file_bytes_, limit.rlim_cur));
  }
  const int64_t free_before = RealFileSystem().free_bytes(directory_);
  int result = 0;
  do {
    result = ::posix_fallocate(fd_.get(), 0, file_bytes_);
  } while (result == EINTR);
  if (result == ENOSPC || result == EDQUOT) {
    throw DiskFull(fmt::format(
        "swap file {}: needs {} bytes, {} are free in {}{}: make room there, or name another "
        "directory (nvme_path)",
        path_, file_bytes_, free_before, directory_,
        result == EDQUOT ? " and a quota of this user or project allows less" : ""));
  }
  if (result != 0) {
    throw_io_error(fmt::format("reserve {} bytes for swap file", file_bytes_), path_, result);
  }
  DS_FAILPOINT("swap.reserved");
}

void SwapFile::open_for_io() {
  io_ = std::make_unique<IoFile>(IoFile::open(path_, OpenMode::kReadWrite));
  if (is_at_path(fd_.get(), path_) && is_at_path(io_->fd(), path_)) return;
  throw IoError(fmt::format("swap file {}: another file has taken its place", path_));
}

}  // namespace ds
