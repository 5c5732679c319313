#include "offload/swap_directory.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "core/status/failpoint.h"
#include "core/tasks/host.h"
#include "core/values/index.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "dslaunch-state-";

// Whose the file is; nothing where it is none of ours, or of another host.
bool is_own_leftover(int fd, const std::string& path) {
  std::vector<std::byte> page(to_size(kSwapPage));
  const ssize_t got = ::pread(fd, page.data(), page.size(), 0);
  if (got < 0) return false;
  page.resize(to_size(got));
  if (page.empty()) return true;  // of who died while making it
  if (!has_swap_magic(page)) return false;
  try {
    const SwapFileHeader header = parse_swap_file_header(page, path);
    if (header.host != own_host_name().substr(0, header.host.size())) return false;
    spdlog::info("swap file {}: removed, {} is dead", path, to_string(header.owner));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_at(const std::string& path, int fd) {
  struct stat here {};
  struct stat there {};
  return ::fstat(fd, &here) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

Fd open_folder(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

void remove_if_stale(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.valid()) return;
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;  // somebody lives
  if (is_at(path, file.get()) && is_own_leftover(file.get(), path)) ::unlink(path.c_str());
}

// An empty folder that nobody has a share in.
void remove_if_left(const std::string& path) {
  const Fd folder = open_folder(path);
  if (folder.valid() && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) ::rmdir(path.c_str());
}

std::string path_of(const std::string& root, const SwapOwner& owner) {
  return join_path(root, std::string(kPrefix) + owner.job);
}

// Makes the folder and takes a share in it; again, where others remove it at the same time.
Fd share_of(const std::string& path) {
  constexpr int kAttempts = 64;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      throw_io_error("make folder for swap files", path, errno);
    }
    Fd folder = open_folder(path);
    if (!folder.valid()) {
      if (errno == ENOENT) continue;
      throw_io_error("open folder for swap files", path, errno);
    }
    if (::flock(folder.get(), LOCK_SH) != 0) {
      throw_io_error("lock folder for swap files", path, errno);
    }
    if (is_at(path, folder.get())) return folder;
  }
  throw IoError(fmt::format("folder for swap files {}: others remove it again and again", path));
}

void require_folder(const std::string& root) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    throw ConfigError(fmt::format(
        "nvme_path {}: no such directory; make it, or name one on a local NVMe disk", root));
  }
}

}  // namespace

SwapDirectory::SwapDirectory(const std::string& root, const SwapOwner& owner)
    : path_(path_of(root, owner)) {
  require_folder(root);
  remove_stale_swap_files(root);
  lock_ = share_of(path_);
  DS_FAILPOINT("swap.folder_made");
}

SwapDirectory::~SwapDirectory() {
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) ::rmdir(path_.c_str());
}

void remove_stale_swap_files(const std::string& root) {
  std::error_code error;
  for (const fs::directory_entry& folder : fs::directory_iterator(root, error)) {
    if (!folder.path().filename().string().starts_with(kPrefix)) continue;
    if (!folder.is_directory(error) || folder.is_symlink(error)) continue;
    std::error_code inner;
    for (const fs::directory_entry& file : fs::directory_iterator(folder.path(), inner)) {
      if (file.path().extension() == ".swap") remove_if_stale(file.path().string());
    }
    remove_if_left(folder.path().string());
  }
}

}  // namespace ds
