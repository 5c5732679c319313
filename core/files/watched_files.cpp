#include "core/files/watched_files.h"

#include "core/values/index.h"

namespace ds {

void WatchedFile::read(int64_t offset, std::span<std::byte> into) const {
  inner_->read(offset, into);
  const auto bytes = narrow<int64_t>(into.size());
  on_bytes_(offset + bytes, bytes);
}

void WatchedFile::write(int64_t offset, std::span<const std::byte> from) {
  inner_->write(offset, from);
  const auto bytes = narrow<int64_t>(from.size());
  on_bytes_(offset + bytes, bytes);
}

std::unique_ptr<File> WatchedFiles::open(const std::string& path, Caching caching) {
  return std::make_unique<WatchedFile>(inner_.open(path, caching), on_bytes_);
}

std::unique_ptr<File> WatchedFiles::create(const std::string& path, Caching caching) {
  return std::make_unique<WatchedFile>(inner_.create(path, caching), on_bytes_);
}

}  // namespace ds
