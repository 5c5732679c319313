#include "core/status/io_error.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace ds {
namespace {

// What is left where `path` is or would be. Inodes run out, too, and quotas on disks with room.
std::string room_at(std::string_view path, int error_number) {
  if (error_number == EDQUOT) return " (a quota of this user or project, not the disk)";
  struct statvfs info {};
  std::string at(path);
  while (::statvfs(at.c_str(), &info) != 0) {
    const std::string above = std::filesystem::path(at).parent_path();
    if (above == at || above.empty()) return "";
    at = above;
  }
  if (info.f_files > 0 && info.f_favail == 0) return " (no inode is left there: too many files)";
  return fmt::format(" ({} of {} bytes are free there)", info.f_bavail * info.f_frsize,
                     info.f_blocks * info.f_frsize);
}

}  // namespace

void throw_io_error(std::string_view operation, std::string_view path, int error_number) {
  // std::generic_category is thread-safe where strerror is not.
  const std::string message =
      fmt::format("{} {}: {}", operation, path, std::generic_category().message(error_number));
  if (error_number == ENOENT || error_number == ENOTDIR) throw InputMissing(message);
  if (error_number == ENOSPC || error_number == EDQUOT)
    throw DiskFull(message + room_at(path, error_number));
  throw IoError(message + (error_number == EFBIG ? " (a limit on file sizes: ulimit -f)" : ""));
}

}  // namespace ds
