#include "core/torch/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/files/lfs_pointer.h"
#include "core/files/mapped_file.h"
#include "core/files/zip_reader.h"
#include "core/status/error.h"
#include "core/torch/pickle_reader.h"
#include "core/torch/pickle_source.h"
#include "core/torch/value_arena.h"
#include "core/values/index.h"
#include "core/values/little_endian.h"

namespace ds {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kPickleEnd = "/data.pkl";
constexpr std::byte kPickleStart{0x80};  // PROTO, with which every pickle since protocol 2 begins
constexpr int64_t kDeflated = -1;        // instead of an offset in the file

// What the older stream begins with, as a pickle has integers.
constexpr std::string_view kLegacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kLegacyProtocol = 1001;

struct StoredBytes {
  Bytes bytes{};
  int64_t offset = 0;               // in the file
  const ZipEntry* entry = nullptr;  // of a zip whose checksum is not compared yet
};

struct Storage {
  explicit Storage(const StoredBytes& in_file) : stored(in_file) {}
  StoredBytes stored;
  std::atomic<bool> is_checked = false;
};

[[noreturn]] void refuse(const std::string& path, const std::string& defect) {
  throw DataError(fmt::format("{}: {}", path, defect));
}

// A file of torch.save since 1.6: NAME/data.pkl, NAME/data/ID for each storage, and small texts.
class ZipLayout {
 public:
  ZipLayout(const std::string& path, Bytes bytes) : path_(path), zip_(path, bytes) {
    for (const ZipEntry& entry : zip_.entries()) {
      const size_t slash = entry.name.find('/');
      if (slash == std::string_view::npos || entry.name.substr(slash) != kPickleEnd) continue;
      if (!top_.empty())
        refuse(path_, fmt::format("both {} and {} have a data.pkl", top_,
                                  quoted_of_file(entry.name.substr(0, slash))));
      top_ = entry.name.substr(0, slash);
    }
    if (find("constants.pkl") != nullptr) {
      refuse(path_, "a program of TorchScript (torch.jit.save), expected a file of torch.save");
    }
    if (top_.empty()) {
      refuse(path_,
             fmt::format("a zip archive of {} entries without a data.pkl, expected a file of "
                         "torch.save",
                         zip_.entries().size()));
    }
  }

  const ZipEntry* find(std::string_view name) const {
    return zip_.find(fmt::format("{}/{}", top_, name));
  }

  // The bytes of an entry in place where it is stored, else inflated, on the account of the arena.
  StoredBytes bytes_of(const ZipEntry& entry, ValueArena& arena,
                       std::vector<std::vector<std::byte>>& inflated) const {
    if (entry.method == ZipEntry::Method::kStored) {
      return {.bytes = zip_.stored(entry), .offset = entry.offset, .entry = &entry};
    }
    arena.charge(entry.bytes);
    return {.bytes = inflated.emplace_back(zip_.read(entry, entry.bytes)), .offset = kDeflated};
  }

  void check(const ZipEntry& entry, Bytes bytes) const { zip_.check(entry, bytes); }

 private:
  const std::string& path_;
  ZipReader zip_;
  std::string_view top_;
};

}  // namespace

struct TorchFileParts {
  TorchFileParts(const std::string& name, MappedFile file, Bytes content)
      : path(name),
        mapped(std::move(file)),
        bytes(content),
        arena(name, ValueArena::bytes_max_of(narrow<int64_t>(content.size()))) {}

  std::string path;
  MappedFile mapped;
  Bytes bytes;
  ValueArena arena;
  PickleSource source{};
  TorchStorages storages{};
  std::optional<ZipLayout> layout{};
  std::map<std::string_view, Storage> stored{};  // by the ids of storages
  std::vector<std::vector<std::byte>> inflated{};
  TorchValue root{};
};

namespace {

void check_byte_order(const std::string& path, Bytes text) {
  const std::string_view order{reinterpret_cast<const char*>(text.data()), text.size()};
  if (order != "little") {
    refuse(path, fmt::format("its numbers are in byte order {}, expected 'little'",
                             quoted_of_file(order)));
  }
}

void read_zip(TorchFileParts& parts) {
  constexpr int64_t kLongestOrder = 16;
  const ZipLayout& layout = parts.layout.emplace(parts.path, parts.bytes);
  if (const ZipEntry* order = layout.find("byteorder"); order != nullptr) {
    std::vector<std::vector<std::byte>> text;
    if (order->bytes > kLongestOrder) refuse(parts.path, "its byteorder is no word");
    check_byte_order(parts.path, layout.bytes_of(*order, parts.arena, text).bytes);
  }
  const ZipEntry& pickle = *layout.find("data.pkl");
  const StoredBytes program = layout.bytes_of(pickle, parts.arena, parts.inflated);
  layout.check(pickle, program.bytes);
  parts.source = {.path = parts.path, .entry = std::string(pickle.name), .bytes = program.bytes};
  PickleReader reader(parts.source, parts.arena, parts.storages);
  parts.root = reader.read(0);
  if (reader.end() != narrow<int64_t>(program.bytes.size())) {
    parts.source.refuse(reader.end(), "bytes follow the pickle");
  }
  for (const auto& [id, storage] : parts.storages) {
    const ZipEntry* entry = layout.find(fmt::format("data/{}", id));
    if (entry == nullptr) {
      refuse(parts.path, fmt::format("the entry of storage {} is missing; the file is incomplete",
                                     quoted_of_file(id)));
    }
    const int64_t expected = storage->numel * storage->dtype.size;
    if (entry->bytes != expected) {
      refuse(parts.path,
             fmt::format("storage {} has {} bytes, expected {} ({} of {})", quoted_of_file(id),
                         entry->bytes, expected, storage->numel, storage->dtype.name));
    }
    parts.stored.emplace(id, layout.bytes_of(*entry, parts.arena, parts.inflated));
  }
}

// The stream before 1.6: pickles of a magic number, a protocol, the machine, the value and the ids
// of its storages; then each storage, its number of elements before its bytes.
class LegacyLayout {
 public:
  explicit LegacyLayout(TorchFileParts& parts)
      : parts_(parts), reader_(parts.source, parts.arena, parts.storages) {}

  void read() {
    if (!is_magic(next())) {
      refuse(parts_.path, "a pickle, and none of torch.save; expected weights or a checkpoint");
    }
    if (const TorchValue protocol = next(); protocol.as_int() != kLegacyProtocol) {
      refuse(parts_.path, fmt::format("protocol {} of torch.save, expected {}",
                                      protocol.as_int().value_or(0), kLegacyProtocol));
    }
    const TorchValue machine = next();
    const TorchDict* facts = machine.as_dict();
    const TorchValue* little = facts == nullptr ? nullptr : facts->find("little_endian");
    if (little != nullptr && little->as_bool() == false) {
      refuse(parts_.path, "its numbers have the highest byte first, expected the lowest");
    }
    parts_.root = next();
    read_storages(next());
  }

 private:
  TorchValue next() { return reader_.read(reader_.end()); }

  static bool is_magic(const TorchValue& value) {
    const TorchRecord* number = value.as_record();
    return number != nullptr && number->full_name() == "builtins.int" &&
           number->arguments.front().as_bytes() == kLegacyMagic;
  }

  void read_storages(const TorchValue& ids) {
    const TorchList* list = ids.as_sequence();
    if (list == nullptr || list->items.size() != parts_.storages.size()) {
      refuse(parts_.path, "its list of storages is not that of its tensors");
    }
    int64_t at = reader_.end();
    for (const TorchValue& item : list->items) {
      const auto found = parts_.storages.find(item.as_text().value_or(""));
      if (found == parts_.storages.end() || parts_.stored.contains(found->first)) {
        refuse(parts_.path, "its list of storages is not that of its tensors");
      }
      at = read_storage(*found->second, at);
    }
    if (at != narrow<int64_t>(parts_.bytes.size())) {
      parts_.source.refuse(at, "bytes follow the last storage");
    }
  }

  int64_t read_storage(const TorchStorage& storage, int64_t at) {
    constexpr int64_t kCountBytes = sizeof(int64_t);
    const int64_t bytes = storage.numel * storage.dtype.size;
    const int64_t left = narrow<int64_t>(parts_.bytes.size()) - at;
    if (left < kCountBytes || left - kCountBytes < bytes) {
      parts_.source.refuse(at, fmt::format("storage {} ends beyond the file; it is truncated",
                                           quoted_of_file(storage.id)));
    }
    const auto numel = little_endian<int64_t>(parts_.bytes, to_size(at));
    if (numel != storage.numel) {
      parts_.source.refuse(at, fmt::format("storage {} has {} elements, expected {}",
                                           quoted_of_file(storage.id), numel, storage.numel));
    }
    const int64_t begin = at + kCountBytes;
    parts_.stored.emplace(storage.id,
                          StoredBytes{.bytes = parts_.bytes.subspan(to_size(begin), to_size(bytes)),
                                      .offset = begin});
    return begin + bytes;
  }

  TorchFileParts& parts_;
  PickleReader reader_;
};

void read_all(TorchFileParts& parts) {
  if (ZipReader::is_zip(parts.bytes)) {
    read_zip(parts);
    return;
  }
  refuse_lfs_pointer(parts.path, {reinterpret_cast<const char*>(parts.bytes.data()),
                                  std::min(parts.bytes.size(), kLfsPointer.size())});
  if (parts.bytes.empty() || parts.bytes.front() != kPickleStart) {
    refuse(parts.path, parts.bytes.empty()
                           ? "an empty file, expected one of torch.save"
                           : "neither a zip archive nor a pickle, expected a file of torch.save");
  }
  parts.source = {.path = parts.path, .entry = {}, .bytes = parts.bytes};
  LegacyLayout(parts).read();
}

}  // namespace

TorchFile TorchFile::open(const std::string& path) {
  MappedFile mapped(path);
  const Bytes bytes = mapped.bytes();
  auto parts = std::make_unique<TorchFileParts>(path, std::move(mapped), bytes);
  read_all(*parts);
  return TorchFile(std::move(parts));
}

TorchFile TorchFile::of_bytes(const std::string& path, Bytes bytes) {
  auto parts = std::make_unique<TorchFileParts>(path, MappedFile(), bytes);
  read_all(*parts);
  return TorchFile(std::move(parts));
}

TorchFile::TorchFile(std::unique_ptr<TorchFileParts> parts) : parts_(std::move(parts)) {}
TorchFile::TorchFile(TorchFile&&) noexcept = default;
TorchFile& TorchFile::operator=(TorchFile&&) noexcept = default;
TorchFile::~TorchFile() = default;

const std::string& TorchFile::path() const { return parts_->path; }
const TorchValue& TorchFile::root() const { return parts_->root; }

namespace {

Storage& storage_of(TorchFileParts& parts, const TorchStorage& storage) {
  const auto found = parts.stored.find(storage.id);
  DS_CHECK(found != parts.stored.end(), "{}: storage {} is of another file", parts.path,
           quoted_of_file(storage.id));
  return found->second;
}

}  // namespace

// Several threads may compare the checksum of one storage at once, and all find the same.
Bytes TorchFile::storage_bytes(const TorchStorage& storage) const {
  Storage& found = storage_of(*parts_, storage);
  const StoredBytes& stored = found.stored;
  if (stored.entry != nullptr && !found.is_checked) {
    parts_->layout->check(*stored.entry, stored.bytes);
    found.is_checked = true;
  }
  return stored.bytes;
}

int64_t TorchFile::storage_offset(const TorchStorage& storage) const {
  return storage_of(*parts_, storage).stored.offset;
}

Bytes TorchFile::tensor_bytes(const TorchTensor& tensor) const {
  DS_CHECK(tensor.is_contiguous(), "{}: a tensor with gaps cannot be read in place", parts_->path);
  const int64_t begin = tensor.offset * tensor.dtype.size;
  return storage_bytes(*tensor.storage).subspan(to_size(begin), to_size(tensor.bytes()));
}

void TorchFile::copy(const TorchTensor& tensor, int64_t begin, std::span<std::byte> into) const {
  const int64_t size = tensor.dtype.size;
  const int64_t count = narrow<int64_t>(into.size()) / size;
  DS_CHECK(
      begin >= 0 && count * size == narrow<int64_t>(into.size()) && count <= tensor.numel() - begin,
      "{}: copy of {} bytes from element {} of {}", parts_->path, into.size(), begin,
      tensor.numel());
  if (count == 0) return;
  if (tensor.is_contiguous()) {
    const Bytes from = tensor_bytes(tensor).subspan(to_size(begin * size), into.size());
    std::memcpy(into.data(), from.data(), from.size());
    return;
  }
  const Bytes from = storage_bytes(*tensor.storage);
  // The place of the element in each axis, counted up as an odometer, the last axis first.
  std::vector<int64_t> place(tensor.shape.size());
  int64_t rest = begin;
  int64_t element = tensor.offset;
  for (size_t axis = place.size(); axis-- > 0;) {
    place[axis] = rest % tensor.shape[axis];
    rest /= tensor.shape[axis];
    element += place[axis] * tensor.strides[axis];
  }
  for (int64_t done = 0; done < count; ++done) {
    std::memcpy(into.data() + done * size, from.data() + element * size, to_size(size));
    for (size_t axis = place.size(); axis-- > 0;) {
      element += tensor.strides[axis];
      if (++place[axis] < tensor.shape[axis]) break;
      element -= place[axis] * tensor.strides[axis];
      place[axis] = 0;
    }
  }
}

}  // namespace ds
