// Megatron / DeepSpeed indexed token data sets: PREFIX.bin holds the items one after the other,
// PREFIX.idx their type, lengths, positions and the document boundaries; all little endian. Two
// index forms are read and written: "mmap" (MMIDIDX) and the older "cached" (TNTIDX). Everything is
// checked once when opened, so that access afterwards cannot leave the files; it refuses files that
// do not match each other exactly.
//
// mmap index (a 34-byte header, so the arrays are not aligned):
//   "MMIDIDX\0\0", u64 version 1, u8 type code, u64 items n, u64 document entries d,
//   i32 numel[n], i64 byte position[n], i64 document start[d], optionally i8 mode[n] (ignored).
// cached index:
//   "TNTIDX\0\0", u64 version 1, u64 type code, u64 element bytes, u64 items n, u64 sizes s,
//   u64 document entries d, i64 dim offset[n+1], i64 data offset in elements[n+1], i64 sizes[s],
//   i64 document start[d].
// Type codes 1-5 agree between the two projects; 6, 7, 8 are uint16, uint32, uint64 for DeepSpeed
// but float64, float32, uint16 for Megatron. The size of the .bin decides; float items are refused,
// and code 7 (4 bytes for both) is read as uint32. A writer is told whose codes to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "core/files/mapped_file.h"
#include "core/values/index.h"
#include "data/text/path_pattern.h"

namespace ds {

enum class IndexFormat { kMmap, kCached };

enum class ItemType : uint8_t {  // values are DeepSpeed's type codes
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 6,
  kUint32 = 7,
  kUint64 = 8,
};
int64_t bytes_per_token(ItemType type);
std::string_view to_string(ItemType type);
std::optional<ItemType> item_type_named(std::string_view name);  // "uint16", ...

// Type for token ids below `vocab_size`: uint16 below 65500 (the rule both projects use), else
// int32.
ItemType best_item_type(std::optional<int64_t> vocab_size);

// Which form the bytes of an .idx file have, by their magic; nullopt when neither.
std::optional<IndexFormat> index_format(std::span<const std::byte> idx);

// A checked, non-owning view of an .idx file. (pure)
class DatasetIndex {
 public:
  // Throws DataError for a bad magic, version, type code or length, for sizes or positions that
  // leave the .bin, and for document entries that fall or leave the items. The bytes must outlive
  // the view.
  static DatasetIndex parse(std::span<const std::byte> idx, int64_t bin_bytes);

  IndexFormat format() const { return format_; }
  ItemType type() const { return type_; }
  int64_t size() const { return items_; }                  // items
  int64_t numel(int64_t item) const;                       // tokens of one item
  int64_t byte_offset(int64_t item) const;                 // in the .bin
  int64_t document_entries() const { return documents_; }  // one more than documents, or 0
  int64_t document_start(int64_t entry) const;             // first item of a document

 private:
  DatasetIndex() = default;
  void parse_mmap(std::span<const std::byte> idx, int64_t bin_bytes);
  void parse_cached(std::span<const std::byte> idx);
  void check_items(int64_t bin_bytes) const;
  void check_documents() const;
  int64_t offset_entry(int64_t entry) const;

  IndexFormat format_ = IndexFormat::kMmap;
  ItemType type_ = ItemType::kInt32;
  int64_t items_ = 0;
  int64_t documents_ = 0;
  const std::byte* sizes_ = nullptr;    // mmap: i32 numel
  const std::byte* offsets_ = nullptr;  // mmap: i64 bytes; cached: i64 elements, one entry more
  const std::byte* starts_ = nullptr;   // i64 items
};

// Items and documents of one data set, read in place. Thread-safe: nothing changes after
// construction.
class IndexedDataset {
 public:
  // Maps prefix.bin and prefix.idx. Throws InputMissing, IoError, DataError (see
  // DatasetIndex::parse).
  static IndexedDataset open(const std::string& prefix);
  // The same over bytes the caller keeps alive.
  static IndexedDataset view(std::span<const std::byte> idx, std::span<const std::byte> bin);

  const DatasetIndex& index() const { return index_; }
  ItemType type() const { return index_.type(); }
  int64_t size() const { return index_.size(); }
  int64_t numel(int64_t item) const { return index_.numel(item); }
  int64_t documents() const;
  std::pair<int64_t, int64_t> document(int64_t k) const;  // items [first, last) of document k

  // The items [start, stop) as a slice names them: absent bounds are the ends, negative ones count
  // from the end, and what lies outside is cut off. Returns {first, last} with first <= last.
  std::pair<int64_t, int64_t> clamped_range(std::optional<int64_t> start,
                                            std::optional<int64_t> stop) const;

  // The raw little-endian tokens of one item; not necessarily aligned to the token type.
  std::span<const std::byte> bytes(int64_t item) const;
  // Copies tokens [offset, offset + out.size()) of one item into `out`; T is int32_t, int64_t or
  // uint64_t. Throws DataError when a token does not fit T; the range must lie inside the item.
  template <class T>
  void read(int64_t item, int64_t offset, std::span<T> out) const;

 private:
  IndexedDataset(MappedFile idx, MappedFile bin);
  IndexedDataset(std::span<const std::byte> idx, std::span<const std::byte> bin);

  MappedFile idx_file_, bin_file_;
  std::span<const std::byte> bin_;
  DatasetIndex index_;
};

enum class TypeCodes { kDeepSpeed, kMegatron };

// Collects sizes and document ends and writes the index bytes. (pure)
class IndexBuilder {
 public:
  // Unsupported for a type that those codes do not have.
  IndexBuilder(IndexFormat format, ItemType type, TypeCodes codes = TypeCodes::kDeepSpeed);
  void add_item(int64_t numel);  // DataError above 2^31-1 tokens in the mmap form
  void end_document() { starts_.push_back(narrow<int64_t>(numels_.size())); }
  // Appends another data set's items and documents; its .bin is to be appended too. DataError when
  // the types differ.
  void merge(const DatasetIndex& other);
  std::vector<std::byte> serialize() const;
  ItemType type() const { return type_; }

 private:
  IndexFormat format_;
  ItemType type_;
  uint8_t code_;
  std::vector<int64_t> numels_;
  std::vector<int64_t> starts_{0};
};

// Appends tokens to `out` as `type`; T is int32_t, int64_t or uint64_t. DataError when one does not
// fit.
template <class T>
void append_tokens(std::span<const T> tokens, ItemType type, std::vector<std::byte>& out);

// Writes a data set as its tokens arrive. Both files have their names from finish() on and not
// before: until then they end with ".unfinished", and the files of another run that was killed are
// replaced. What is not finished is removed again. Confined to one thread.
class IndexedDatasetWriter {
 public:
  // DiskFull, IoError; `files` outlives the writer.
  IndexedDatasetWriter(FileSystem& files, std::string prefix, IndexBuilder index);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;  // owns the open file
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  // Tokens of the item that is being written; T is int32_t or int64_t. DataError when one does not
  // fit the type.
  template <class T>
  void add_tokens(std::span<const T> tokens);
  void end_item();  // DataError for an item that the index cannot hold
  void add_item(std::span<const int64_t> tokens);
  void end_document() { index_.end_document(); }
  void merge(const std::string& other_prefix);
  void finish();  // makes both files durable

 private:
  void flush();

  FileSystem& files_;
  bool lacks_index_ = false;  // the .bin has its name already
  std::string prefix_;
  IndexBuilder index_;
  std::unique_ptr<File> bin_;
  std::vector<std::byte> buffer_;
  int64_t written_ = 0;  // bytes of the .bin
  int64_t numel_ = 0;    // of the item that is being written
};

}  // namespace ds
