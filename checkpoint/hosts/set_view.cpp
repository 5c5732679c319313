#include "checkpoint/hosts/set_view.h"

#include <algorithm>
#include <array>

#include "core/values/index.h"

namespace ds {
namespace {

class ReadOnlyFile : public File {
 public:
  using File::File;
  bool is_cached() const override { return true; }
  void write(int64_t /*offset*/, std::span<const std::byte> /*from*/) override { refuse(); }
  void allocate(int64_t /*bytes*/) override { refuse(); }
  void sync() override {}

 private:
  [[noreturn]] void refuse() const {
    throw InternalError(fmt::format("write {}: a set that is kept is only read", path()));
  }
};

class TextFile final : public ReadOnlyFile {
 public:
  TextFile(std::string path, const std::string& text)
      : ReadOnlyFile(std::move(path)), text_(text) {}
  int64_t size() const override { return narrow<int64_t>(text_.size()); }
  void read(int64_t offset, std::span<std::byte> into) const override {
    DS_CHECK(offset >= 0 && to_size(offset) + into.size() <= text_.size(), "read {}: past its end",
             path());
    std::ranges::copy(std::as_bytes(std::span(text_)).subspan(to_size(offset), into.size()),
                      into.begin());
  }

 private:
  const std::string text_;
};

class ReceivedFile final : public ReadOnlyFile {
 public:
  ReceivedFile(std::string path, std::shared_ptr<const SetView::Received> from)
      : ReadOnlyFile(std::move(path)), from_(std::move(from)) {}
  int64_t size() const override { return from_->bytes; }
  void read(int64_t offset, std::span<std::byte> into) const override {
    const auto count = narrow<int64_t>(into.size());
    const bool there = offset >= from_->begin && count <= from_->bytes - offset &&
                       from_->bytes - from_->begin == narrow<int64_t>(from_->content.size());
    if (!there) {
      throw ValidationError(fmt::format("read {}: bytes [{}, {}) were not brought here", path(),
                                        offset, offset + count));
    }
    std::copy_n(from_->content.begin() + (offset - from_->begin), count, into.begin());
  }

 private:
  const std::shared_ptr<const SetView::Received> from_;
};

std::string file_name_of(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

Trailer read_trailer(const File& file) {
  std::array<std::byte, kTrailerBytes> raw{};
  const int64_t size = file.size();
  if (size < kTrailerBytes) {
    throw ValidationError(fmt::format("{}: {} bytes are no pieces file", file.path(), size));
  }
  file.read(size - kTrailerBytes, raw);
  return parse_trailer(file.path(), raw, size);
}

// Readers take the index by whole pages.
int64_t tail_of(const File& file) {
  return read_trailer(file).index_offset / kUncachedAlignment * kUncachedAlignment;
}

void SetView::add(const FileVote& vote, OpenKept open) { files_[vote.name] = std::move(open); }

std::span<std::byte> SetView::add_tail(const FileVote& vote, int64_t tail) {
  DS_CHECK(tail >= 0 && tail < vote.bytes, "set: the tail of {} begins at {} of {}", vote.name,
           tail, vote.bytes);
  auto received = std::make_shared<Received>();
  received->bytes = vote.bytes;
  received->begin = tail;
  received->content.resize(to_size(vote.bytes - tail));
  received_[vote.name] = received;
  return received->content;
}

std::span<std::byte> SetView::make_whole(const FileVote& vote) {
  Received& received = *received_.at(vote.name);
  received.begin = 0;
  received.content.resize(to_size(received.bytes));
  return received.content;
}

bool SetView::exists(const std::string& path) const {
  const std::string name = file_name_of(path);
  return name == kManifestName || files_.contains(name) || received_.contains(name);
}

std::unique_ptr<File> SetView::open(const std::string& path, Caching caching) {
  const std::string name = file_name_of(path);
  if (name == kManifestName) return std::make_unique<TextFile>(path, manifest_);
  if (const auto file = files_.find(name); file != files_.end()) return file->second(caching);
  if (const auto received = received_.find(name); received != received_.end()) {
    return std::make_unique<ReceivedFile>(path, received->second);
  }
  throw InputMissing(fmt::format("open {}: not among what is kept", path));
}

}  // namespace ds
