#include "data/cache/source_digest.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/values/index.h"

namespace ds {
namespace {

constexpr size_t kReadBytes = size_t{4} << 20;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string memo_start(const FileStamp& stamp) {
  return fmt::format("dslaunch source 1 {} {} {} {} {} ", stamp.device, stamp.inode, stamp.bytes,
                     stamp.modified_ns, stamp.changed_ns);
}

std::optional<int> value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return std::nullopt;
}

}  // namespace

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileStamp{.device = found.st_dev,
                   .inode = found.st_ino,
                   .bytes = found.st_size,
                   .modified_ns = nanoseconds(found.st_mtim),
                   .changed_ns = nanoseconds(found.st_ctim)};
}

std::string memo_text(const FileStamp& stamp, const Digest& digest) {
  return memo_start(stamp) + hex(digest) + "\n";
}

std::optional<Digest> remembered(std::string_view memo, const FileStamp& stamp) {
  const std::string start = memo_start(stamp);
  Digest digest{};
  if (!memo.starts_with(start)) return std::nullopt;
  memo.remove_prefix(start.size());
  if (memo.size() != 2 * digest.size() + 1 || memo.back() != '\n') return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const std::optional<int> high = value_of(memo[2 * i]), low = value_of(memo[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    digest.at(i) = static_cast<std::byte>(16 * *high + *low);
  }
  return digest;
}

Digest digest_of_file(const File& file, const std::function<void(int64_t bytes)>& on_bytes) {
  const int64_t size = file.size();
  std::vector<std::byte> some(kReadBytes);
  StreamDigest digest;
  for (int64_t at = 0; at < size;) {
    const auto into =
        std::span(some).first(to_size(std::min(narrow<int64_t>(some.size()), size - at)));
    file.read(at, into);
    digest.add(into);
    at += narrow<int64_t>(into.size());
    on_bytes(at);
  }
  return digest.finish();
}

}  // namespace ds
