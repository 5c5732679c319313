#include "checkpoint/hosts/checkpoint_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "checkpoint/block_file.h"
#include "checkpoint/hosts/set_view.h"
#include "checkpoint/partial_file_system.h"
#include "core/tasks/host.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kHeaderBytes = 4096;
constexpr int64_t kPiecesAt = int64_t{1} << 29;
constexpr int64_t kLargestKeptManifest = kPiecesAt - kHeaderBytes;
constexpr int64_t kLargestKeptFile = kSlotSpan - kPiecesAt;
constexpr std::array<char, 8> kMagic{'D', 'S', 'S', 'H', 'E', 'L', 'F', '1'};

// The memory never leaves the machine, nor the build that wrote it.
struct Header {
  std::array<char, 8> magic{};
  int64_t epoch = 0, step = 0, begun_in = 0;
  int64_t rank = 0, buffer = 0, files = 0;
  int64_t bytes = 0, tail = 0, manifest_bytes = 0;
  std::array<char, 32> manifest_digest{};
  std::array<char, 32> digest{};  // of everything before it
};
static_assert(sizeof(Header) <= kHeaderBytes);

int64_t slot_at(int rank, int buffer) {
  DS_CHECK(rank >= 0 && rank < kMostKeptRanks && buffer >= 0 && buffer < kSlotsPerRank,
           "memory: there is no slot {} of rank {}", buffer, rank);
  return (int64_t{kSlotsPerRank} * rank + buffer) * kSlotSpan;
}

std::string digest_of_header(const Header& header) {
  return digest_of(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, digest)));
}

std::string slot_name(int rank, int buffer) {
  return fmt::format("memory, slot {} of rank {}", buffer, rank);
}

// A stretch of the memory as a file.
class SlotFile final : public File {
 public:
  SlotFile(std::string name, int fd, int64_t begin, int64_t size)
      : File(std::move(name)), fd_(duplicate(fd)), begin_(begin), size_(size) {}

  int64_t size() const override { return size_; }
  bool is_cached() const override { return true; }  // so that readers need no detour
  void allocate(int64_t /*bytes*/) override {}
  void sync() override {}

  void read(int64_t offset, std::span<std::byte> into) const override {
    const auto bytes = narrow<int64_t>(into.size());
    if (offset < 0 || bytes > size_ - offset) {
      throw IoError(fmt::format("read {}: it ends at byte {}, expected at least {} bytes", path(),
                                size_, offset + bytes));
    }
    read_fully(fd_.get(), begin_ + offset, into, path());
  }

  void write(int64_t offset, std::span<const std::byte> from) override {
    const int64_t end = offset + narrow<int64_t>(from.size());
    if (offset < 0 || end > kLargestKeptFile) {
      throw IoError(fmt::format("write {}: {} bytes, at most {}", path(), end, kLargestKeptFile));
    }
    write_fully(fd_.get(), begin_ + offset, from, path());
    size_ = std::max(size_, end);
  }

 private:
  static Fd duplicate(int fd) {
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) throw_io_error("duplicate", "the memory of the host", errno);
    return copy;
  }

  const Fd fd_;
  const int64_t begin_;
  int64_t size_;
};

// One slot as the writer of a checkpoint sees it.
class SlotFileSystem final : public PartialFileSystem {
 public:
  SlotFileSystem(CheckpointMemory& memory, int rank, int buffer)
      : memory_(memory), rank_(rank), buffer_(buffer) {}

  using FileSystem::create;
  std::unique_ptr<File> create(const std::string& path, Caching /*caching*/) override {
    DS_CHECK(is_file(path), "memory: {} has no slot", path);
    return memory_.begin(rank_, buffer_);
  }
  void sync_directory(const std::string& /*path*/) override {}
  bool exists(const std::string& path) const override { return !is_file(path); }
  int64_t free_bytes(const std::string& /*path*/) const override {
    return memory_.room_for(rank_, buffer_);
  }

 private:
  bool is_file(const std::string& path) const {
    return path.ends_with("/" + pieces_file_name(rank_));
  }

  CheckpointMemory& memory_;
  const int rank_, buffer_;
};

bool holds(const Header& header, int rank, int buffer) {
  return header.magic == kMagic &&
         digest_of_header(header) == std::string_view(header.digest.data(), header.digest.size()) &&
         header.rank == rank && header.buffer == buffer && header.files > rank &&
         header.files <= kMostKeptRanks && header.bytes >= kTrailerBytes &&
         header.bytes <= kLargestKeptFile && header.tail >= 0 && header.tail < header.bytes &&
         header.manifest_bytes >= 0 && header.manifest_bytes <= kLargestKeptManifest;
}

template <class Number>
Number read_at(int fd, int64_t offset) {
  Number out{};
  const ssize_t got = ::pread(fd, &out, sizeof(out), offset);
  return got == static_cast<ssize_t>(sizeof(out)) ? out : Number{};
}

}  // namespace

CheckpointMemory::CheckpointMemory(int fd) : memory_(::fcntl(fd, F_DUPFD_CLOEXEC, 0)) {
  struct stat info {};
  if (!memory_.valid() || ::fstat(memory_.get(), &info) != 0) {
    throw_io_error("open", "the memory of the host", errno);
  }
  const bool ours = S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && info.st_nlink == 0;
  if (!ours) throw IoError("the memory of the host: not nameless memory of this user");
}

void CheckpointMemory::for_each_slot(const std::function<void(int rank, int buffer)>& visit) const {
  off_t at = 0;
  while ((at = ::lseek(memory_.get(), at, SEEK_DATA)) >= 0) {
    const int64_t slot = at / kSlotSpan;
    if (slot >= int64_t{kSlotsPerRank} * kMostKeptRanks) return;
    at = (slot + 1) * kSlotSpan;
    visit(static_cast<int>(slot / kSlotsPerRank), static_cast<int>(slot % kSlotsPerRank));
  }
}

std::vector<KeptFile> CheckpointMemory::files() const {
  std::vector<KeptFile> out;
  for_each_slot([&](int rank, int buffer) {
    const auto header = read_at<Header>(memory_.get(), slot_at(rank, buffer));
    if (!holds(header, rank, buffer)) return;
    out.push_back(
        {.set = {.epoch = header.epoch,
                 .step = header.step,
                 .begun_in = header.begun_in,
                 .files = static_cast<int>(header.files),
                 .digest = {header.manifest_digest.begin(), header.manifest_digest.end()}},
         .rank = rank,
         .buffer = buffer,
         .bytes = header.bytes,
         .tail = header.tail});
  });
  return out;
}

std::string CheckpointMemory::manifest(const KeptFile& file) const {
  const int64_t slot = slot_at(file.rank, file.buffer);
  const auto header = read_at<Header>(memory_.get(), slot);
  std::string text;
  if (holds(header, file.rank, file.buffer)) {
    text.resize(to_size(header.manifest_bytes));
    SlotFile(slot_name(file.rank, file.buffer), memory_.get(), slot + kHeaderBytes,
             header.manifest_bytes)
        .read(0, std::as_writable_bytes(std::span(text)));
  }
  if (digest_of(std::as_bytes(std::span(text))) != file.set.digest) {
    throw ValidationError(fmt::format("{}: its manifest is not the one of generation {}, step {}",
                                      slot_name(file.rank, file.buffer), file.set.epoch,
                                      file.set.step));
  }
  return text;
}

std::unique_ptr<File> CheckpointMemory::open(const KeptFile& file, Caching /*caching*/) const {
  return std::make_unique<SlotFile>(slot_name(file.rank, file.buffer), memory_.get(),
                                    slot_at(file.rank, file.buffer) + kPiecesAt, file.bytes);
}

std::unique_ptr<File> CheckpointMemory::begin(int rank, int buffer) {
  const int64_t slot = slot_at(rank, buffer);
  const std::string name = slot_name(rank, buffer);
  const std::array<std::byte, kHeaderBytes> zeros{};
  SlotFile(name, memory_.get(), slot, 0).write(0, zeros);
  return std::make_unique<SlotFile>(name, memory_.get(), slot + kPiecesAt, 0);
}

std::unique_ptr<FileSystem> CheckpointMemory::slot_of(int rank, int buffer) {
  return std::make_unique<SlotFileSystem>(*this, rank, buffer);
}

void CheckpointMemory::commit(int rank, int buffer, const Manifest& manifest) {
  const auto vote = std::ranges::find(manifest.files, rank, &FileVote::rank);
  DS_CHECK(vote != manifest.files.end(), "memory: the manifest has no file of rank {}", rank);
  const std::string text = to_text(manifest);
  const int64_t slot = slot_at(rank, buffer);
  const std::string name = slot_name(rank, buffer);
  Header header{.magic = kMagic,
                .epoch = manifest.epoch,
                .step = manifest.step,
                .begun_in = manifest.begun_in,
                .rank = rank,
                .buffer = buffer,
                .files = narrow<int64_t>(manifest.files.size()),
                .bytes = vote->bytes,
                .manifest_bytes = narrow<int64_t>(text.size())};
  const SlotFile pieces(name, memory_.get(), slot + kPiecesAt, vote->bytes);
  header.tail = tail_of(pieces);
  SetView view("");
  view.add(*vote, [&](Caching) { return open({{}, rank, buffer, vote->bytes, header.tail}); });
  const BlockFileReader checked(view, "", *vote);
  if (checked.index().tag != manifest.tag || header.manifest_bytes > kLargestKeptManifest) {
    throw ValidationError(
        fmt::format("{}: it holds tag {}, expected {}", name, checked.index().tag, manifest.tag));
  }
  SlotFile(name, memory_.get(), slot + kHeaderBytes, 0).write(0, std::as_bytes(std::span(text)));
  const std::string text_digest = digest_of(std::as_bytes(std::span(text)));
  std::ranges::copy(text_digest, header.manifest_digest.begin());
  std::ranges::copy(digest_of_header(header), header.digest.begin());
  SlotFile(name, memory_.get(), slot, 0).write(0, std::as_bytes(std::span(&header, 1)));
}

void CheckpointMemory::drop_if(const std::function<bool(int rank, int buffer)>& unwanted) {
  for_each_slot([&](int rank, int buffer) {
    if (!unwanted(rank, buffer)) return;
    const int64_t slot = slot_at(rank, buffer);
    constexpr int kGiveBack = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    ::fallocate(memory_.get(), kGiveBack, slot, kHeaderBytes);  // first: the rest may take a while
    if (::fallocate(memory_.get(), kGiveBack, slot, kSlotSpan) != 0) {
      throw_io_error("give back", slot_name(rank, buffer), errno);
    }
  });
}

int64_t CheckpointMemory::room_for(int rank, int buffer) const {
  const int64_t slot = slot_at(rank, buffer);
  const off_t first = ::lseek(memory_.get(), slot + kPiecesAt, SEEK_DATA);
  int64_t held = 0;
  if (first >= 0 && first < slot + kSlotSpan) {
    const off_t end = ::lseek(memory_.get(), first, SEEK_HOLE);
    held = std::max<int64_t>(0, end - first);
  }
  // If the kernel does not say how much there is, it will when the memory is used.
  return available_memory().value_or(std::numeric_limits<int64_t>::max() / 2) + held;
}

int64_t CheckpointMemory::kept_bytes() const {
  struct stat info {};
  if (::fstat(memory_.get(), &info) != 0) throw_io_error("stat", "the memory of the host", errno);
  return int64_t{info.st_blocks} * 512;
}

}  // namespace ds
