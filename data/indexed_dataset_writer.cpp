// Writing indexed data sets: the index bytes, token encoding and the two files.
#include <limits>

#include "core/files/create_anew.h"
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

// The code that stands for a type in an index.
uint8_t code_of(ItemType type, TypeCodes codes) {
  constexpr uint8_t kMegatronUint16 = 8;
  if (codes == TypeCodes::kDeepSpeed || type <= ItemType::kInt64) return static_cast<uint8_t>(type);
  if (type == ItemType::kUint16) return kMegatronUint16;
  throw Unsupported(
      fmt::format("indexed data set: Megatron-LM has no code for tokens of {}; "
                  "expected uint8, int8, int16, uint16, int32 or int64",
                  to_string(type)));
}

std::string unfinished(const std::string& path) { return path + std::string(kUnfinished); }

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

IndexBuilder::IndexBuilder(IndexFormat format, ItemType type, TypeCodes codes)
    : format_(format), type_(type), code_(code_of(type, codes)) {}

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
    put(out, code_);
    for (const int64_t count : {items, entries}) put(out, count);
    for (const int64_t numel : numels_) put(out, static_cast<int32_t>(numel));
    for (const int64_t numel : numels_) {
      put(out, position);
      position += numel * bytes_per_token(type_);
    }
  } else {
    put_text(out, kCachedMagic);
    for (const int64_t field :
         {version, int64_t{code_}, bytes_per_token(type_), items, items, entries})
      put(out, field);
    for (int64_t i = 0; i <= items; ++i) put(out, i);
    put(out, position);
    for (const int64_t numel : numels_) put(out, position += numel);
    for (const int64_t numel : numels_) put(out, numel);
  }
  for (const int64_t start : starts_) put(out, start);
  return out;
}

IndexedDatasetWriter::IndexedDatasetWriter(FileSystem& files, std::string prefix,
                                           IndexBuilder index)
    : files_(files),
      prefix_(std::move(prefix)),
      index_(std::move(index)),
      bin_(create_anew(files_, unfinished(prefix_ + ".bin"))) {}

IndexedDatasetWriter::~IndexedDatasetWriter() {
  if (bin_ == nullptr) return;
  bin_.reset();
  const std::string bin = prefix_ + ".bin";
  for (const std::string& path :
       {lacks_index_ ? bin : unfinished(bin), unfinished(prefix_ + ".idx")}) {
    try {
      if (files_.exists(path)) files_.remove(path);
    } catch (const std::exception&) {
      return;  // the next writer of this prefix replaces it
    }
  }
}

void IndexedDatasetWriter::flush() {
  bin_->write(written_, buffer_);
  written_ += narrow<int64_t>(buffer_.size());
  buffer_.clear();
}

template <class T>
void IndexedDatasetWriter::add_tokens(std::span<const T> tokens) {
  DS_CHECK(bin_ != nullptr, "indexed data set: {} was finished already", prefix_);
  append_tokens(tokens, index_.type(), buffer_);
  numel_ += narrow<int64_t>(tokens.size());
  if (buffer_.size() >= kFlushBytes) flush();
}
template void IndexedDatasetWriter::add_tokens(std::span<const int32_t>);
template void IndexedDatasetWriter::add_tokens(std::span<const int64_t>);

void IndexedDatasetWriter::end_item() { index_.add_item(std::exchange(numel_, 0)); }

void IndexedDatasetWriter::add_item(std::span<const int64_t> tokens) {
  add_tokens(tokens);
  end_item();
}

void IndexedDatasetWriter::merge(const std::string& other_prefix) {
  DS_CHECK(bin_ != nullptr && numel_ == 0, "indexed data set: {} is finished or within an item",
           prefix_);
  const IndexedDataset other = IndexedDataset::open(other_prefix);
  index_.merge(other.index());
  for (int64_t i = 0; i < other.size(); ++i) {
    const std::span<const std::byte> bytes = other.bytes(i);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= kFlushBytes) flush();
  }
}

// An index without its items is worse than no index, so the old one goes first.
void IndexedDatasetWriter::finish() {
  DS_CHECK(bin_ != nullptr && numel_ == 0, "indexed data set: {} is finished or within an item",
           prefix_);
  const std::string bin = prefix_ + ".bin", idx = prefix_ + ".idx";
  flush();
  bin_->sync();
  const std::unique_ptr<File> index = create_anew(files_, unfinished(idx));
  index->write(0, index_.serialize());
  index->sync();
  if (files_.exists(idx)) files_.remove(idx);
  files_.rename(unfinished(bin), bin);
  lacks_index_ = true;
  files_.rename(unfinished(idx), idx);
  lacks_index_ = false;
  files_.sync_directory(parent_directory(prefix_));
  bin_.reset();
}

}  // namespace ds
