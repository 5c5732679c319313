// Reading indexed data sets: parsing and checking the index, access to items.
#include "data/indexed_dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/indexed_magic.h"

namespace ds {

static_assert(std::endian::native == std::endian::little, "the files are little endian");

namespace {

constexpr uint64_t kVersion = 1;
constexpr int64_t kIndexLimit = int64_t{1} << 48;  // keeps every product below far from overflow

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// Takes fixed-size pieces off the front of the index; every piece is checked against what is left.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  T number(const char* what) {
    return load<T>(array(1, sizeof(T), what));
  }

  int64_t count(const char* what) {
    const uint64_t value = number<uint64_t>(what);
    if (value >= static_cast<uint64_t>(kIndexLimit)) {
      throw DataError(fmt::format("index: {} is {}, which no file can hold", what, value));
    }
    return static_cast<int64_t>(value);
  }

  const std::byte* array(int64_t entries, size_t entry_bytes, const char* what) {
    const size_t bytes = to_size(entries) * entry_bytes;
    if (bytes > left_.size()) {
      throw DataError(fmt::format(
          "index: {} needs {} bytes but the file ends {} bytes further on; it is cut short", what,
          bytes, left_.size()));
    }
    const std::byte* at = left_.data();
    left_ = left_.subspan(bytes);
    return at;
  }

  int64_t left() const { return narrow<int64_t>(left_.size()); }

 private:
  std::span<const std::byte> left_;
};

ItemType checked_type(uint64_t code) {
  if (code < 1 || code > 8) {
    throw DataError(fmt::format("index: type code {} is unknown, expected 1 to 8", code));
  }
  return static_cast<ItemType>(code);
}

void check_version(uint64_t version) {
  if (version != kVersion) {
    throw DataError(fmt::format("index: version {} is unknown, expected {}", version, kVersion));
  }
}

// Decides what a type code means from the number of tokens and the size of the .bin.
ItemType decide_type(uint64_t code, int64_t tokens, int64_t bin_bytes) {
  const ItemType type = checked_type(code);
  if (tokens * bytes_per_token(type) == bin_bytes) return type;
  const bool megatron_uint16 = code == 8 && tokens * 2 == bin_bytes;
  if (megatron_uint16) return ItemType::kUint16;
  if (code == 6 && tokens * 8 == bin_bytes) {
    throw DataError(
        "index: items are float64 (Megatron's type code 6); token ids must be integers");
  }
  throw DataError(fmt::format(
      "index: {} tokens of {} need a .bin of {} bytes, it has {}; the files do not belong together "
      "or one was not written to its end",
      tokens, to_string(type), tokens * bytes_per_token(type), bin_bytes));
}

}  // namespace

int64_t bytes_per_token(ItemType type) {
  switch (type) {
    case ItemType::kUint8:
    case ItemType::kInt8:
      return 1;
    case ItemType::kInt16:
    case ItemType::kUint16:
      return 2;
    case ItemType::kInt32:
    case ItemType::kUint32:
      return 4;
    case ItemType::kInt64:
    case ItemType::kUint64:
      return 8;
  }
  throw InternalError(fmt::format("bytes_per_token: type code {}", static_cast<int>(type)));
}

std::string_view to_string(ItemType type) {
  constexpr std::array<std::string_view, 9> kNames = {"",      "uint8",  "int8",   "int16", "int32",
                                                      "int64", "uint16", "uint32", "uint64"};
  return kNames.at(to_size(type));
}

std::optional<ItemType> item_type_named(std::string_view name) {
  for (uint8_t code = 1; code <= 8; ++code) {
    if (to_string(static_cast<ItemType>(code)) == name) return static_cast<ItemType>(code);
  }
  return std::nullopt;
}

ItemType best_item_type(std::optional<int64_t> vocab_size) {
  return vocab_size && *vocab_size < 65500 ? ItemType::kUint16 : ItemType::kInt32;
}

std::optional<IndexFormat> index_format(std::span<const std::byte> idx) {
  if (starts_with(idx, kMmapName)) return IndexFormat::kMmap;
  if (starts_with(idx, kCachedMagic)) return IndexFormat::kCached;
  return std::nullopt;
}

DatasetIndex DatasetIndex::parse(std::span<const std::byte> idx, int64_t bin_bytes) {
  const std::optional<IndexFormat> format = index_format(idx);
  if (!format)
    throw DataError("index: the file starts with neither MMIDIDX nor TNTIDX; it is no token index");
  DatasetIndex index;
  index.format_ = *format;
  if (*format == IndexFormat::kMmap) {
    index.parse_mmap(idx, bin_bytes);
  } else {
    index.parse_cached(idx);
  }
  index.check_items(bin_bytes);
  index.check_documents();
  return index;
}

void DatasetIndex::parse_mmap(std::span<const std::byte> idx, int64_t bin_bytes) {
  if (!starts_with(idx, kMmapMagic)) {
    throw DataError("index: MMIDIDX and two zero bytes were expected at its beginning");
  }
  Cursor cursor(idx.subspan(kMmapMagic.size()));
  check_version(cursor.number<uint64_t>("version"));
  const uint64_t code = cursor.number<uint8_t>("type code");
  items_ = cursor.count("item count");
  documents_ = cursor.count("document entry count");
  sizes_ = cursor.array(items_, sizeof(int32_t), "item sizes");
  offsets_ = cursor.array(items_, sizeof(int64_t), "item positions");
  starts_ = cursor.array(documents_, sizeof(int64_t), "document index");
  if (cursor.left() != 0 && cursor.left() != items_) {
    throw DataError(
        fmt::format("index: {} bytes after the document index, expected none (or {} item modes)",
                    cursor.left(), items_));
  }
  int64_t tokens = 0;
  for (int64_t i = 0; i < items_; ++i) {
    if (numel(i) < 0) throw DataError(fmt::format("index: item {} has {} tokens", i, numel(i)));
    tokens += numel(i);
  }
  if (tokens >= kIndexLimit)
    throw DataError(fmt::format("index: {} tokens, which no file can hold", tokens));
  type_ = decide_type(code, tokens, bin_bytes);
}

void DatasetIndex::parse_cached(std::span<const std::byte> idx) {
  Cursor cursor(idx.subspan(kCachedMagic.size()));
  check_version(cursor.number<uint64_t>("version"));
  type_ = checked_type(cursor.number<uint64_t>("type code"));
  const int64_t element_bytes = cursor.count("element size");
  if (element_bytes != bytes_per_token(type_)) {
    throw DataError(fmt::format("index: element size {} does not fit type {}", element_bytes,
                                to_string(type_)));
  }
  items_ = cursor.count("item count");
  const int64_t dims = cursor.count("size count");
  documents_ = cursor.count("document entry count");
  const std::byte* dim_offsets = cursor.array(items_ + 1, sizeof(int64_t), "dim offsets");
  offsets_ = cursor.array(items_ + 1, sizeof(int64_t), "data offsets");
  const std::byte* sizes = cursor.array(dims, sizeof(int64_t), "item sizes");
  starts_ = cursor.array(documents_, sizeof(int64_t), "document index");
  if (cursor.left() != 0)
    throw DataError(fmt::format("index: {} bytes after the document index", cursor.left()));
  for (int64_t i = 0; i < items_; ++i) {
    const int64_t first = load<int64_t>(dim_offsets + 8 * i),
                  last = load<int64_t>(dim_offsets + 8 * (i + 1));
    // Compared, not subtracted: a broken file may hold any numbers.
    if (first < 0 || first >= dims || last != first + 1) {
      throw DataError(fmt::format(
          "index: item {} has dimensions [{}, {}), expected one list of tokens", i, first, last));
    }
    const int64_t begin = offset_entry(i), end = offset_entry(i + 1);
    if (begin < 0 || end < begin) {
      throw DataError(fmt::format("index: item {} has data offsets [{}, {})", i, begin, end));
    }
    const int64_t tokens = load<int64_t>(sizes + 8 * first);
    if (tokens != numel(i)) {
      throw DataError(fmt::format("index: item {} has size {} but its data offsets span {} tokens",
                                  i, tokens, numel(i)));
    }
  }
}

int64_t DatasetIndex::offset_entry(int64_t entry) const {
  return load<int64_t>(offsets_ + 8 * entry);
}

int64_t DatasetIndex::numel(int64_t item) const {
  DS_CHECK(item >= 0 && item < items_, "indexed data set: item {} asked for, it has {}", item,
           items_);
  if (format_ == IndexFormat::kMmap) return load<int32_t>(sizes_ + 4 * item);
  return offset_entry(item + 1) - offset_entry(item);
}

int64_t DatasetIndex::byte_offset(int64_t item) const {
  DS_CHECK(item >= 0 && item < items_, "indexed data set: item {} asked for, it has {}", item,
           items_);
  return format_ == IndexFormat::kMmap ? offset_entry(item)
                                       : offset_entry(item) * bytes_per_token(type_);
}

int64_t DatasetIndex::document_start(int64_t entry) const {
  DS_CHECK(entry >= 0 && entry < documents_,
           "indexed data set: document entry {} asked for, it has {}", entry, documents_);
  return load<int64_t>(starts_ + 8 * entry);
}

void DatasetIndex::check_items(int64_t bin_bytes) const {
  const int64_t unit = format_ == IndexFormat::kMmap ? 1 : bytes_per_token(type_);
  for (int64_t i = 0; i < items_; ++i) {
    const int64_t offset = offset_entry(i);
    const bool inside = offset >= 0 && offset <= bin_bytes / unit && numel(i) >= 0 &&
                        numel(i) <= (bin_bytes - offset * unit) / bytes_per_token(type_);
    if (!inside) {
      throw DataError(
          fmt::format("index: item {} ({} tokens of {} at position {}) leaves the .bin of {} bytes",
                      i, numel(i), to_string(type_), offset, bin_bytes));
    }
  }
  if (format_ != IndexFormat::kCached) return;
  const int64_t end = offset_entry(items_);
  if (end != bin_bytes / unit || bin_bytes % unit != 0) {
    throw DataError(
        fmt::format("index: data ends at element {}, of {} bytes each, but the .bin has {} bytes",
                    end, unit, bin_bytes));
  }
}

void DatasetIndex::check_documents() const {
  int64_t previous = 0;
  for (int64_t k = 0; k < documents_; ++k) {
    const int64_t start = document_start(k);
    if (start < previous || start > items_) {
      throw DataError(fmt::format("index: document entry {} is item {}, expected {} to {}", k,
                                  start, previous, items_));
    }
    previous = start;
  }
}

IndexedDataset IndexedDataset::open(const std::string& prefix) {
  return IndexedDataset(MappedFile(prefix + ".idx"), MappedFile(prefix + ".bin"));
}

IndexedDataset IndexedDataset::view(std::span<const std::byte> idx,
                                    std::span<const std::byte> bin) {
  return IndexedDataset(idx, bin);
}

IndexedDataset::IndexedDataset(MappedFile idx, MappedFile bin)
    : idx_file_(std::move(idx)),
      bin_file_(std::move(bin)),
      bin_(bin_file_.bytes()),
      index_(DatasetIndex::parse(idx_file_.bytes(), narrow<int64_t>(bin_.size()))) {}

IndexedDataset::IndexedDataset(std::span<const std::byte> idx, std::span<const std::byte> bin)
    : bin_(bin), index_(DatasetIndex::parse(idx, narrow<int64_t>(bin.size()))) {}

int64_t IndexedDataset::documents() const {
  return index_.document_entries() > 0 ? index_.document_entries() - 1 : 0;
}

std::pair<int64_t, int64_t> IndexedDataset::document(int64_t k) const {
  return {index_.document_start(k), index_.document_start(k + 1)};
}

std::pair<int64_t, int64_t> IndexedDataset::clamped_range(std::optional<int64_t> start,
                                                          std::optional<int64_t> stop) const {
  const auto clamp = [&](int64_t bound) {
    return std::clamp<int64_t>(bound < 0 ? bound + size() : bound, 0, size());
  };
  const int64_t first = clamp(start.value_or(0)), last = clamp(stop.value_or(size()));
  return {first, std::max(first, last)};
}

std::span<const std::byte> IndexedDataset::bytes(int64_t item) const {
  return bin_.subspan(to_size(index_.byte_offset(item)),
                      to_size(index_.numel(item) * bytes_per_token(type())));
}

namespace {

template <class Stored, class T>
void convert(const std::byte* from, std::span<T> out, int64_t item) {
  for (size_t i = 0; i < out.size(); ++i) {
    const Stored token = load<Stored>(from + i * sizeof(Stored));
    if (!std::in_range<T>(token)) {
      throw DataError(fmt::format("indexed data set: token {} of item {} does not fit {} bytes",
                                  token, item, sizeof(T)));
    }
    out[i] = static_cast<T>(token);
  }
}

}  // namespace

template <class T>
void IndexedDataset::read(int64_t item, int64_t offset, std::span<T> out) const {
  const int64_t count = narrow<int64_t>(out.size());
  DS_CHECK(offset >= 0 && offset <= numel(item) && count <= numel(item) - offset,
           "indexed data set: tokens [{}, {}) of item {} asked for, it has {}", offset,
           offset + count, item, numel(item));
  const std::byte* from = bytes(item).data() + offset * bytes_per_token(type());
  switch (type()) {
    case ItemType::kUint8:
      return convert<uint8_t>(from, out, item);
    case ItemType::kInt8:
      return convert<int8_t>(from, out, item);
    case ItemType::kInt16:
      return convert<int16_t>(from, out, item);
    case ItemType::kUint16:
      return convert<uint16_t>(from, out, item);
    case ItemType::kInt32:
      return convert<int32_t>(from, out, item);
    case ItemType::kUint32:
      return convert<uint32_t>(from, out, item);
    case ItemType::kInt64:
      return convert<int64_t>(from, out, item);
    case ItemType::kUint64:
      return convert<uint64_t>(from, out, item);
  }
}

template void IndexedDataset::read(int64_t, int64_t, std::span<int32_t>) const;
template void IndexedDataset::read(int64_t, int64_t, std::span<int64_t>) const;
template void IndexedDataset::read(int64_t, int64_t, std::span<uint64_t>) const;

}  // namespace ds
