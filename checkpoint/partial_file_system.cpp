#include "checkpoint/partial_file_system.h"

namespace ds {
namespace {

[[noreturn]] void refuse_operation(std::string_view operation, const std::string& path) {
  throw InternalError(fmt::format("{} {}: not possible in memory", operation, path));
}

}  // namespace

std::unique_ptr<File> PartialFileSystem::open(const std::string& path, Caching /*caching*/) {
  refuse_operation("open", path);
}
std::unique_ptr<File> PartialFileSystem::create(const std::string& path, Caching /*caching*/) {
  refuse_operation("create", path);
}
void PartialFileSystem::rename(const std::string& from, const std::string& /*to*/) {
  refuse_operation("rename", from);
}
void PartialFileSystem::make_directory(const std::string& path) {
  refuse_operation("make directory", path);
}
void PartialFileSystem::sync_directory(const std::string& path) { refuse_operation("sync", path); }
void PartialFileSystem::remove(const std::string& path) { refuse_operation("remove", path); }
std::vector<DirectoryEntry> PartialFileSystem::list(const std::string& path) const {
  refuse_operation("list", path);
}
bool PartialFileSystem::exists(const std::string& path) const {
  refuse_operation("look for", path);
}
int64_t PartialFileSystem::free_bytes(const std::string& path) const {
  refuse_operation("free space of", path);
}

}  // namespace ds
