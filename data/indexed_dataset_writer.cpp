// Writing indexed data sets: the index bytes, token encoding and the two files.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/indexed_dataset.h"
#include "data/indexed_magic.h"

namespace ds {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

template <class T>
void put(std::vector<std::byte>& out, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), from, from + sizeof value);
}

void put_text(std::vector<std::byte>& out, std::string_view text) {
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), from, from + text.size());
}

template <class Stored, class T>
void encode(std::span<const T> tokens, ItemType type, std::vector<std::byte>& out) {
  for (const T token : tokens) {
    if (!std::in_range<Stored>(token)) {
      throw DataError(
          fmt::format("indexed data set: token {} does not fit {}", token, to_string(type)));
    }
    put(out, static_cast<Stored>(token));
  }
}

std::string system_error(const char* what, const std::string& path) {
  return fmt::format("indexed data set: cannot {} {}: {}", what, path, std::strerror(errno));
}

void write_fully(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw IoError(system_error("write", path));
    bytes = bytes.subspan(to_size(written));
  }
}

int create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw IoError(system_error("create", path));
  return fd;
}

void sync_and_close(int fd, const std::string& path) {
  const int sync_result = ::fsync(fd);
  const int sync_errno = errno;
  const int close_result = ::close(fd);
  if (sync_result != 0) errno = sync_errno;
  if (sync_result != 0 || close_result != 0) throw IoError(system_error("flush", path));
}

}  // namespace

template <class T>
void append_tokens(std::span<const T> tokens, ItemType type, std::vector<std::byte>& out) {
  switch (type) {
    case ItemType::kUint8:
      return encode<uint8_t>(tokens, type, out);
    case ItemType::kInt8:
      return encode<int8_t>(tokens, type, out);
    case ItemType::kInt16:
      return encode<int16_t>(tokens, type, out);
    case ItemType::kUint16:
      return encode<uint16_t>(tokens, type, out);
    case ItemType::kInt32:
      return encode<int32_t>(tokens, type, out);
    case ItemType::kUint32:
      return encode<uint32_t>(tokens, type, out);
    case ItemType::kInt64:
      return encode<int64_t>(tokens, type, out);
    case ItemType::kUint64:
      return encode<uint64_t>(tokens, type, out);
  }
}
template void append_tokens(std::span<const int32_t>, ItemType, std::vector<std::byte>&);
template void append_tokens(std::span<const int64_t>, ItemType, std::vector<std::byte>&);
template void append_tokens(std::span<const uint64_t>, ItemType, std::vector<std::byte>&);

void IndexBuilder::add_item(int64_t numel) {
  DS_CHECK(numel >= 0, "indexed data set: an item of {} tokens", numel);
  if (format_ == IndexFormat::kMmap && !std::in_range<int32_t>(numel)) {
    throw DataError(fmt::format(
        "indexed data set: an item of {} tokens; the mmap index holds at most {} per item", numel,
        std::numeric_limits<int32_t>::max()));
  }
  numels_.push_back(numel);
}

void IndexBuilder::merge(const DatasetIndex& other) {
  if (other.type() != type_) {
    throw DataError(fmt::format("indexed data set: cannot merge items of {} into {}",
                                to_string(other.type()), to_string(type_)));
  }
  const int64_t first = narrow<int64_t>(numels_.size());
  for (int64_t i = 0; i < other.size(); ++i) add_item(other.numel(i));
  for (int64_t k = 1; k < other.document_entries(); ++k)
    starts_.push_back(first + other.document_start(k));
}

std::vector<std::byte> IndexBuilder::serialize() const {
  std::vector<std::byte> out;
  const int64_t items = narrow<int64_t>(numels_.size());
  const int64_t entries = narrow<int64_t>(starts_.size());
  const int64_t version = 1;
  int64_t position = 0;
  if (format_ == IndexFormat::kMmap) {
    put_text(out, kMmapMagic);
    put(out, version);
    put(out, static_cast<uint8_t>(type_));
    for (const int64_t count : {items, entries}) put(out, count);
    for (const int64_t numel : numels_) put(out, static_cast<int32_t>(numel));
    for (const int64_t numel : numels_) {
      put(out, position);
      position += numel * bytes_per_token(type_);
    }
  } else {
    put_text(out, kCachedMagic);
    for (const int64_t field :
         {version, static_cast<int64_t>(type_), bytes_per_token(type_), items, items, entries})
      put(out, field);
    for (int64_t i = 0; i <= items; ++i) put(out, i);
    put(out, position);
    for (const int64_t numel : numels_) put(out, position += numel);
    for (const int64_t numel : numels_) put(out, numel);
  }
  for (const int64_t start : starts_) put(out, start);
  return out;
}

IndexedDatasetWriter::IndexedDatasetWriter(std::string prefix, IndexFormat format, ItemType type)
    : prefix_(std::move(prefix)), type_(type), index_(format, type) {
  const std::string idx = prefix_ + ".idx";
  if (::unlink(idx.c_str()) != 0 && errno != ENOENT) throw IoError(system_error("remove", idx));
  fd_ = create(prefix_ + ".bin");
}

IndexedDatasetWriter::~IndexedDatasetWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void IndexedDatasetWriter::append(std::span<const std::byte> bytes) {
  DS_CHECK(fd_ >= 0, "indexed data set: {} was finished already", prefix_);
  write_fully(fd_, bytes, prefix_ + ".bin");
}

void IndexedDatasetWriter::add_item(std::span<const int64_t> tokens) {
  DS_CHECK(fd_ >= 0, "indexed data set: {} was finished already", prefix_);
  append_tokens(tokens, type_, buffer_);
  index_.add_item(narrow<int64_t>(tokens.size()));
  if (buffer_.size() >= kFlushBytes) {
    append(buffer_);
    buffer_.clear();
  }
}

void IndexedDatasetWriter::merge(const std::string& other_prefix) {
  const IndexedDataset other = IndexedDataset::open(other_prefix);
  index_.merge(other.index());
  append(buffer_);
  buffer_.clear();
  for (int64_t i = 0; i < other.size(); ++i) append(other.bytes(i));
}

void IndexedDatasetWriter::finish() {
  append(buffer_);
  buffer_.clear();
  const std::string idx = prefix_ + ".idx", unfinished = idx + ".unfinished";
  sync_and_close(std::exchange(fd_, -1), prefix_ + ".bin");
  const int fd = create(unfinished);
  try {
    write_fully(fd, index_.serialize(), unfinished);
  } catch (const IoError&) {
    ::close(fd);
    ::unlink(unfinished.c_str());
    throw;
  }
  sync_and_close(fd, unfinished);
  if (::rename(unfinished.c_str(), idx.c_str()) != 0)
    throw IoError(system_error("rename", unfinished));
}

}  // namespace ds
