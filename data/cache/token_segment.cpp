#include "data/cache/token_segment.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/files/create_anew.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr std::array<char, 8> kMagic{'d', 's', 't', 'o', 'k', 'e', 'n', 's'};
constexpr uint32_t kVersion = 2;
constexpr size_t kFlushBytes = size_t{1} << 20;

static_assert(std::endian::native == std::endian::little, "headers are written as they lie");

// As it lies in the file.
struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t token_bytes = 0;
  Digest key{};
  int64_t tokens = 0;
  int64_t next_bytes = 0;
  int64_t next_lines = 0;
  int64_t next_documents = 0;
  int64_t is_end = 0;
  Digest digest{};
  Digest of_header{};  // of all that comes before
};
static_assert(sizeof(Header) == 104);
constexpr auto kHeaderBytes = static_cast<int64_t>(sizeof(Header));

Digest digest_of(const Header& header) {
  return xxh3_128(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, of_header)));
}

void append(std::span<const int32_t> ids, int token_bytes, std::vector<std::byte>& out) {
  size_t at = out.size();
  const auto width = static_cast<size_t>(token_bytes);
  out.resize(at + ids.size() * width);
  for (const int32_t id : ids) {
    std::memcpy(out.data() + at, &id, width);  // the low bytes: an id has no others
    at += width;
  }
}

}  // namespace

std::optional<TokenSegment> read_segment(FileSystem& files, const std::string& path,
                                         const TokenKey& key) {
  if (!files.exists(path)) return std::nullopt;
  const std::unique_ptr<File> file = files.open(path);
  if (file->size() < kHeaderBytes) return std::nullopt;
  Header header;
  file->read(0, std::as_writable_bytes(std::span(&header, 1)));
  const bool is_ours = header.magic == kMagic && header.version == kVersion &&
                       header.of_header == digest_of(header) && header.key == key.digest &&
                       std::cmp_equal(header.token_bytes, key.token_bytes) && header.tokens >= 0;
  if (!is_ours || file->size() - kHeaderBytes != header.tokens * key.token_bytes) {
    return std::nullopt;
  }
  return TokenSegment{.tokens = header.tokens,
                      .next = {.bytes = header.next_bytes,
                               .lines = header.next_lines,
                               .documents = header.next_documents,
                               .is_end = header.is_end != 0},
                      .digest = header.digest};
}

bool is_intact(FileSystem& files, const std::string& path, const TokenKey& key,
               const TokenSegment& segment) {
  const std::unique_ptr<File> file = files.open(path);
  const int64_t end = kHeaderBytes + segment.tokens * key.token_bytes;
  std::vector<std::byte> some(kFlushBytes);
  StreamDigest digest;
  for (int64_t at = kHeaderBytes; at < end;) {
    const int64_t count = std::min(narrow<int64_t>(some.size()), end - at);
    const auto into = std::span(some).first(to_size(count));
    file->read(at, into);
    digest.add(into);
    at += count;
  }
  return digest.finish() == segment.digest;
}

std::shared_ptr<const TokenSource> open_segment(FileSystem& files, const std::string& path,
                                                const TokenKey& key) {
  return open_raw_tokens(files.open(path), kHeaderBytes, key.token_bytes);
}

SegmentWriter::SegmentWriter(FileSystem& files, std::string path, const TokenKey& key)
    : files_(files), path_(std::move(path)), key_(key) {
  file_ = create_anew(files_, path_ + ".part");
  const std::array<std::byte, sizeof(Header)> room{};
  file_->write(0, room);
}

void SegmentWriter::add(std::span<const int32_t> ids) {
  append(ids, key_.token_bytes, buffer_);
  tokens_ += narrow<int64_t>(ids.size());
  if (buffer_.size() >= kFlushBytes) flush();
}

void SegmentWriter::flush() {
  digest_.add(buffer_);
  file_->write(kHeaderBytes + written_, buffer_);
  written_ += narrow<int64_t>(buffer_.size());
  buffer_.clear();
}

void SegmentWriter::finish(const TextPlace& next) {
  flush();
  Header header{.token_bytes = static_cast<uint32_t>(key_.token_bytes),
                .key = key_.digest,
                .tokens = tokens_,
                .next_bytes = next.bytes,
                .next_lines = next.lines,
                .next_documents = next.documents,
                .is_end = next.is_end ? 1 : 0,
                .digest = digest_.finish()};
  header.of_header = digest_of(header);
  file_->write(0, std::as_bytes(std::span(&header, 1)));
  file_->sync();
  file_.reset();
  files_.rename(path_ + ".part", path_);
  files_.sync_directory(parent_directory(path_));
}

}  // namespace ds
