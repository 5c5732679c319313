#include "core/files/zip_reader.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/files/crc32.h"
#include "core/files/zip_format.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/little_endian.h"

namespace ds {
namespace {

using namespace zip_format;
using Bytes = std::span<const std::byte>;

constexpr int64_t kLargestComment = 0xFFFF;
constexpr int64_t kDeflateRatio = 1032;  // the most that one byte of deflate can become

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The archive as numbers and parts of it; whatever lies outside is an error of the file.
class Archive {
 public:
  Archive(const std::string& path, Bytes bytes) : path_(path), bytes_(bytes) {}

  int64_t size() const { return narrow<int64_t>(bytes_.size()); }
  [[noreturn]] void refuse(const std::string& defect) const {
    throw DataError(fmt::format("{}: not a zip archive to be read: {}", path_, defect));
  }
  template <class T>
  T number(int64_t at) const {
    return little_endian<T>(part(at, sizeof(T), "a number"), 0);
  }
  // A number of 64 bits that is a place or a length.
  int64_t length(int64_t at) const {
    const auto value = number<uint64_t>(at);
    if (!std::in_range<int64_t>(value)) {
      refuse(fmt::format("a length of {} at byte {}", value, at));
    }
    return static_cast<int64_t>(value);
  }
  Bytes part(int64_t at, int64_t count, std::string_view what) const {
    if (at < 0 || count < 0 || at > size() || count > size() - at) {
      refuse(
          fmt::format("{} of {} bytes at byte {} ends beyond its {} bytes; it is truncated or "
                      "damaged, copy it again",
                      what, count, at, size()));
    }
    return bytes_.subspan(to_size(at), to_size(count));
  }

 private:
  const std::string& path_;
  Bytes bytes_;
};

struct Directory {
  int64_t begin = 0;
  int64_t bytes = 0;
  int64_t count = 0;
  int64_t end_record = 0;  // the directory ends before it
};

// The end record closes the file, but for a comment that it has the length of.
int64_t find_end_record(const Archive& archive) {
  const int64_t last = archive.size() - kEndBytes;
  for (int64_t at = last; at >= std::max<int64_t>(0, last - kLargestComment); --at) {
    if (archive.number<uint32_t>(at) != kEndSignature) continue;
    if (archive.number<uint16_t>(at + 20) == last - at) return at;
  }
  archive.refuse(
      "its directory, at the end of the file, is missing; it is truncated, copy it again");
}

Directory find_directory(const Archive& archive) {
  const int64_t end = find_end_record(archive);
  const int64_t locator = end - kLocator64Bytes;
  Directory found;
  if (locator >= 0 && archive.number<uint32_t>(locator) == kLocator64Signature) {
    const int64_t at = archive.length(locator + 8);
    archive.part(at, kEnd64Bytes, "the zip64 end record");
    if (archive.number<uint32_t>(locator + 4) != 0 || archive.number<uint32_t>(locator + 16) > 1 ||
        archive.number<uint32_t>(at) != kEnd64Signature || at > locator - kEnd64Bytes) {
      archive.refuse(fmt::format("the zip64 end record at byte {} is damaged", at));
    }
    if (archive.number<uint32_t>(at + 16) != 0 || archive.number<uint32_t>(at + 20) != 0 ||
        archive.length(at + 24) != archive.length(at + 32)) {
      archive.refuse("it is a part of several disks; join them");
    }
    found = {.begin = archive.length(at + 48),
             .bytes = archive.length(at + 40),
             .count = archive.length(at + 32),
             .end_record = at};
  } else {
    if (archive.number<uint16_t>(end + 4) != 0 || archive.number<uint16_t>(end + 6) != 0 ||
        archive.number<uint16_t>(end + 8) != archive.number<uint16_t>(end + 10)) {
      archive.refuse("it is a part of several disks; join them");
    }
    found = {.begin = archive.number<uint32_t>(end + 16),
             .bytes = archive.number<uint32_t>(end + 12),
             .count = archive.number<uint16_t>(end + 10),
             .end_record = end};
  }
  archive.part(found.begin, found.bytes, "the directory");
  if (found.begin + found.bytes > found.end_record || found.count > found.bytes / kCentralBytes) {
    archive.refuse(
        fmt::format("a directory of {} entries in {} bytes at byte {} does not fit before "
                    "its end record",
                    found.count, found.bytes, found.begin));
  }
  return found;
}

// What is wrong with a name that a careless program would write to disk; empty: nothing.
std::string_view defect_of_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.front() == '/' || name.find('\\') != std::string_view::npos) return "is not relative";
  const bool controls = std::ranges::any_of(name, [](char letter) {
    return static_cast<unsigned char>(letter) < ' ' || letter == '\x7f';
  });
  if (controls) return "has control characters";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return "leaves the archive by \"..\"";
    begin = end + 1;
  }
  return {};
}

// One entry of the directory, with where its head is.
struct Listed {
  ZipEntry entry;
  int64_t head = 0;
  int64_t next = 0;  // the next entry of the directory
};

// Numbers that do not fit into 32 bits are in an extra field, in this order, those alone.
void read_zip64(const Archive& archive, int64_t extra, int64_t extra_bytes, Listed& listed) {
  const bool wide_size = listed.entry.bytes == kIn64Wide;
  const bool wide_stored = listed.entry.stored_bytes == kIn64Wide;
  const bool wide_head = listed.head == kIn64Wide;
  if (!wide_size && !wide_stored && !wide_head) return;
  const int64_t end = extra + extra_bytes;
  while (extra + 4 <= end) {
    const auto id = archive.number<uint16_t>(extra);
    const int64_t field_end = extra + 4 + archive.number<uint16_t>(extra + 2);
    if (id == kExtra64 && field_end <= end) {
      int64_t at = extra + 4;
      for (const auto& [wide, number] : {std::pair{wide_size, &listed.entry.bytes},
                                         std::pair{wide_stored, &listed.entry.stored_bytes},
                                         std::pair{wide_head, &listed.head}}) {
        if (!wide) continue;
        if (at + 8 > field_end) break;
        *number = archive.length(at);
        at += 8;
      }
      return;
    }
    extra = field_end;
  }
}

Listed read_listed(const Archive& archive, int64_t at) {
  const auto refuse = [&](std::string_view name, const std::string& defect) {
    archive.refuse(fmt::format("entry '{}' {}", name, defect));
  };
  archive.part(at, kCentralBytes, "an entry of the directory");
  if (archive.number<uint32_t>(at) != kCentralSignature) {
    archive.refuse(fmt::format("no entry of the directory at byte {}", at));
  }
  const int64_t name_bytes = archive.number<uint16_t>(at + 28);
  const int64_t extra_bytes = archive.number<uint16_t>(at + 30);
  const int64_t comment_bytes = archive.number<uint16_t>(at + 32);
  const int64_t extra = at + kCentralBytes + name_bytes;
  Listed listed;
  listed.next = extra + extra_bytes + comment_bytes;
  archive.part(at, listed.next - at, "an entry of the directory");
  const std::string_view name = text_of(archive.part(at + kCentralBytes, name_bytes, "a name"));
  if (const std::string_view defect = defect_of_name(name); !defect.empty()) {
    archive.refuse(fmt::format("the name of the entry at byte {} of the directory {}", at, defect));
  }
  listed.entry = {.name = name,
                  .method = ZipEntry::Method::kStored,
                  .stored_bytes = archive.number<uint32_t>(at + 20),
                  .bytes = archive.number<uint32_t>(at + 24),
                  .crc32 = archive.number<uint32_t>(at + 16)};
  listed.head = archive.number<uint32_t>(at + 42);
  read_zip64(archive, extra, extra_bytes, listed);
  constexpr int kEncryption = 0x2041;  // bits 0, 6 and 13: traditional, strong, of the directory
  if ((archive.number<uint16_t>(at + 8) & kEncryption) != 0) {
    refuse(name, "is encrypted; decrypt it first");
  }
  if (const auto disk = archive.number<uint16_t>(at + 34); disk != 0 && disk != kIn64) {
    refuse(name, "is on another disk");
  }
  const auto method = archive.number<uint16_t>(at + 10);
  if (method == kDeflated) {
    listed.entry.method = ZipEntry::Method::kDeflated;
    if (listed.entry.bytes / kDeflateRatio > listed.entry.stored_bytes) {
      refuse(name, fmt::format("has {} bytes that cannot become {}", listed.entry.stored_bytes,
                               listed.entry.bytes));
    }
  } else if (method != 0) {
    refuse(name,
           fmt::format("is compressed by method {}, expected 0 (stored) or 8 (deflate)", method));
  } else if (listed.entry.bytes != listed.entry.stored_bytes) {
    refuse(name, fmt::format("is stored, and has both {} and {} bytes", listed.entry.bytes,
                             listed.entry.stored_bytes));
  }
  return listed;
}

// The head says how long its own fields are, and has to have the same name.
void find_data(const Archive& archive, Listed& listed) {
  archive.part(listed.head, kLocalBytes, "the head of an entry");
  const int64_t name_bytes = archive.number<uint16_t>(listed.head + 26);
  const int64_t extra_bytes = archive.number<uint16_t>(listed.head + 28);
  ZipEntry& entry = listed.entry;
  if (archive.number<uint32_t>(listed.head) != kLocalSignature ||
      text_of(archive.part(listed.head + kLocalBytes, name_bytes, "a name")) != entry.name) {
    archive.refuse(fmt::format("entry '{}' has another head at byte {}", entry.name, listed.head));
  }
  entry.offset = listed.head + kLocalBytes + name_bytes + extra_bytes;
  archive.part(entry.offset, entry.stored_bytes, fmt::format("entry '{}'", entry.name));
}

// Entries that share bytes make a small file a large one, and let two readers see two archives.
void refuse_overlap(const Archive& archive, const Directory& directory,
                    std::span<const int64_t> heads, std::span<const ZipEntry> entries) {
  std::vector<uint32_t> order(entries.size());
  for (uint32_t index = 0; index < order.size(); ++index) order[index] = index;
  std::ranges::sort(order, {}, [&](uint32_t index) { return heads[index]; });
  for (size_t place = 0; place < order.size(); ++place) {
    const ZipEntry& entry = entries[order[place]];
    const bool last = place + 1 == order.size();
    const int64_t next = last ? directory.begin : heads[order[place + 1]];
    if (entry.offset + entry.stored_bytes > next) {
      archive.refuse(fmt::format(
          "entry '{}' overlaps {}", entry.name,
          last ? "the directory" : fmt::format("'{}'", entries[order[place + 1]].name)));
    }
  }
}

}  // namespace

bool ZipReader::is_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(uint32_t) &&
         (little_endian<uint32_t>(bytes, 0) == kLocalSignature ||
          little_endian<uint32_t>(bytes, 0) == kEndSignature);
}

ZipReader::ZipReader(std::string path, std::span<const std::byte> archive)
    : path_(std::move(path)), archive_(archive) {
  const Archive file(path_, archive_);
  const Directory directory = find_directory(file);
  std::vector<int64_t> heads;
  entries_.reserve(to_size(directory.count));
  heads.reserve(to_size(directory.count));
  int64_t at = directory.begin;
  for (int64_t index = 0; index < directory.count; ++index) {
    Listed listed = read_listed(file, at);
    find_data(file, listed);
    entries_.push_back(listed.entry);
    heads.push_back(listed.head);
    at = listed.next;
  }
  if (at != directory.begin + directory.bytes) {
    file.refuse(fmt::format("its directory ends at byte {}, expected {}", at,
                            directory.begin + directory.bytes));
  }
  refuse_overlap(file, directory, heads, entries_);
  by_name_.resize(entries_.size());
  for (uint32_t index = 0; index < by_name_.size(); ++index) by_name_[index] = index;
  const auto name_of = [this](uint32_t index) { return entries_[index].name; };
  std::ranges::sort(by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twice != by_name_.end()) {
    file.refuse(fmt::format("entry '{}' is there twice", entries_[*twice].name));
  }
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto name_of = [this](uint32_t index) { return entries_[index].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found == by_name_.end() || entries_[*found].name != name) return nullptr;
  return &entries_[*found];
}

std::span<const std::byte> ZipReader::stored(const ZipEntry& entry) const {
  DS_CHECK(entry.method == ZipEntry::Method::kStored, "{}: entry '{}' is deflated", path_,
           entry.name);
  return archive_.subspan(to_size(entry.offset), to_size(entry.bytes));
}

namespace {

// Inflates raw deflate, which zip has. Returns what is wrong with the data; nothing: `into` is
// filled, and the data ends with it.
std::optional<std::string> inflate(Bytes from, std::span<std::byte> into) {
  struct Free {
    void operator()(libdeflate_decompressor* what) const { libdeflate_free_decompressor(what); }
  };
  const std::unique_ptr<libdeflate_decompressor, Free> state(libdeflate_alloc_decompressor());
  if (state == nullptr) throw OutOfMemory("zip: no memory to decompress");
  std::byte none{};  // it wants an address even for no bytes
  size_t taken = 0, made = 0;
  const libdeflate_result result = libdeflate_deflate_decompress_ex(
      state.get(), from.data(), from.size(), into.empty() ? &none : into.data(), into.size(),
      &taken, &made);
  if (result == LIBDEFLATE_BAD_DATA) return "its bytes are none of deflate, or end early";
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return "it becomes more than its bytes";
  if (taken == from.size() && made == into.size()) return std::nullopt;
  return fmt::format("it becomes {} of its bytes from all but {}", made, from.size() - taken);
}

}  // namespace

std::vector<std::byte> ZipReader::read(const ZipEntry& entry, int64_t bytes_max) const {
  const Archive file(path_, archive_);
  if (entry.bytes > bytes_max) {
    file.refuse(fmt::format("entry '{}' becomes {} bytes, expected {} at most", entry.name,
                            entry.bytes, bytes_max));
  }
  const Bytes from = archive_.subspan(to_size(entry.offset), to_size(entry.stored_bytes));
  std::vector<std::byte> bytes(to_size(entry.bytes));
  if (entry.method == ZipEntry::Method::kStored) {
    std::ranges::copy(from, bytes.begin());
  } else if (const auto defect = inflate(from, bytes); defect.has_value()) {
    file.refuse(fmt::format("entry '{}' does not inflate: {}", entry.name, *defect));
  }
  check(entry, bytes);
  return bytes;
}

void ZipReader::check(const ZipEntry& entry, std::span<const std::byte> bytes) const {
  if (entry.crc32 == 0) return;
  const uint32_t found = ds::crc32(text_of(bytes));
  if (found != entry.crc32) {
    Archive(path_, archive_)
        .refuse(fmt::format("entry '{}' has checksum {:08x}, expected {:08x}; it is damaged, copy "
                            "it again",
                            entry.name, found, entry.crc32));
  }
}

}  // namespace ds
