// Indexed token data sets: both index forms through files, the type code clash, and damaged files.
#include "data/indexed_dataset.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

RealFileSystem files;  // has no state

struct ScratchDir {
  std::filesystem::path path;
  ScratchDir() {
    std::string name = (std::filesystem::temp_directory_path() / "ds_indexed_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~ScratchDir() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};

using Bytes = std::vector<std::byte>;

void poke(Bytes& bytes, size_t at, int64_t value, size_t count) {
  std::memcpy(bytes.data() + at, &value, count);
}

// Three items of 3, 0 and 2 tokens, two documents.
Bytes small_index(IndexFormat format, ItemType type) {
  IndexBuilder index(format, type);
  index.add_item(3);
  index.add_item(0);
  index.end_document();
  index.add_item(2);
  index.end_document();
  return index.serialize();
}

std::vector<int64_t> tokens_of(const IndexedDataset& data, int64_t item) {
  std::vector<int64_t> tokens(static_cast<size_t>(data.numel(item)));
  data.read<int64_t>(item, 0, tokens);
  return tokens;
}

}  // namespace

TEST_CASE("a data set written to files reads back the same in both forms", "[data]") {
  const ScratchDir dir;
  for (const IndexFormat format : {IndexFormat::kMmap, IndexFormat::kCached}) {
    for (const ItemType type : {ItemType::kUint8, ItemType::kInt16, ItemType::kUint16,
                                ItemType::kInt32, ItemType::kUint32, ItemType::kInt64}) {
      IndexedDatasetWriter writer(files, dir / "corpus", {format, type});
      writer.add_item(std::vector<int64_t>{1, 2, 100});
      writer.add_item({});
      writer.end_document();
      writer.add_item(std::vector<int64_t>{7});
      writer.end_document();
      writer.finish();
      const IndexedDataset data = IndexedDataset::open(dir / "corpus");
      REQUIRE(data.size() == 3);
      CHECK(data.type() == type);
      CHECK(tokens_of(data, 0) == std::vector<int64_t>{1, 2, 100});
      CHECK(tokens_of(data, 1).empty());
      CHECK(data.documents() == 2);
      CHECK(data.document(1) == std::pair<int64_t, int64_t>{2, 3});
      int32_t middle = 0;
      data.read<int32_t>(0, 1, {&middle, 1});
      CHECK(middle == 2);
    }
  }
}

TEST_CASE("merging appends items and shifts the documents", "[data]") {
  const ScratchDir dir;
  for (const char* name : {"a", "b"}) {
    IndexedDatasetWriter part(files, dir / name, {IndexFormat::kMmap, ItemType::kUint16});
    part.add_item(std::vector<int64_t>{name[0], 5});
    part.end_document();
    part.finish();
  }
  IndexedDatasetWriter whole(files, dir / "all", {IndexFormat::kMmap, ItemType::kUint16});
  whole.merge(dir / "a");
  whole.merge(dir / "b");
  whole.finish();
  const IndexedDataset data = IndexedDataset::open(dir / "all");
  CHECK(tokens_of(data, 1) == std::vector<int64_t>{'b', 5});
  CHECK(data.document(1) == std::pair<int64_t, int64_t>{1, 2});

  IndexedDatasetWriter other(files, dir / "other", {IndexFormat::kMmap, ItemType::kInt32});
  CHECK_THROWS_AS(other.merge(dir / "a"), DataError);
}

TEST_CASE("what is not finished leaves what was there, and nothing else", "[data]") {
  const ScratchDir dir;
  const auto names = [&] {
    std::vector<std::string> out;
    for (const DirectoryEntry& entry : files.list(dir.path.string())) out.push_back(entry.name);
    return out;
  };
  const IndexBuilder index(IndexFormat::kMmap, ItemType::kInt32);
  { IndexedDatasetWriter(files, dir / "torn", index).end_document(); }
  CHECK(names().empty());
  IndexedDatasetWriter first(files, dir / "set", index);
  first.add_item(std::vector<int64_t>{1, 2});
  CHECK(names() == std::vector<std::string>{"set.bin.unfinished"});
  first.finish();
  {
    IndexedDatasetWriter again(files, dir / "set", index);
    again.add_item(std::vector<int64_t>{3});
  }
  CHECK(names() == std::vector<std::string>{"set.bin", "set.idx"});
  CHECK(tokens_of(IndexedDataset::open(dir / "set"), 0) == std::vector<int64_t>{1, 2});
  CHECK_THROWS_AS(IndexedDatasetWriter(files, dir / "no/such/dir", index), InputMissing);
}

TEST_CASE("a type has the code of the project that reads it", "[data]") {
  const auto code = [](ItemType type, TypeCodes codes) {
    return static_cast<int>(IndexBuilder(IndexFormat::kMmap, type, codes).serialize()[17]);
  };
  CHECK(code(ItemType::kUint16, TypeCodes::kDeepSpeed) == 6);
  CHECK(code(ItemType::kUint16, TypeCodes::kMegatron) == 8);
  CHECK(code(ItemType::kInt32, TypeCodes::kDeepSpeed) == 4);
  CHECK(code(ItemType::kInt32, TypeCodes::kMegatron) == 4);
  CHECK_THROWS_WITH(code(ItemType::kUint32, TypeCodes::kMegatron),
                    Catch::Contains("no code for tokens of uint32"));
}

TEST_CASE("tokens outside the type are refused", "[data]") {
  Bytes out;
  const std::vector<int64_t> tokens{65536};
  CHECK_THROWS_AS(append_tokens<int64_t>(tokens, ItemType::kUint16, out), DataError);
  IndexBuilder index(IndexFormat::kMmap, ItemType::kUint8);
  CHECK_THROWS_AS(index.add_item(int64_t{1} << 31), DataError);
}

TEST_CASE("the size of the .bin decides what type codes 6 to 8 mean", "[data]") {
  Bytes idx = small_index(IndexFormat::kMmap, ItemType::kUint64);
  CHECK(DatasetIndex::parse(idx, 40).type() == ItemType::kUint64);
  for (const auto& [item, position] : {std::pair{1, 6}, {2, 6}}) {  // Megatron: 2-byte tokens
    poke(idx, 34 + 3 * 4 + static_cast<size_t>(item) * 8, position, 8);
  }
  CHECK(DatasetIndex::parse(idx, 10).type() == ItemType::kUint16);
  const Bytes six = small_index(IndexFormat::kMmap, ItemType::kUint16);
  CHECK(DatasetIndex::parse(six, 10).type() == ItemType::kUint16);
  CHECK_THROWS_WITH(DatasetIndex::parse(six, 40), Catch::Contains("float64"));
}

TEST_CASE("eight bytes name the format, the header checks the ninth", "[data]") {
  Bytes idx = small_index(IndexFormat::kMmap, ItemType::kInt32);
  CHECK(index_format(std::span(idx).first(8)) == IndexFormat::kMmap);
  CHECK(index_format(std::span(idx).first(7)) == std::nullopt);
  idx[8] = std::byte{1};
  CHECK(index_format(idx) == IndexFormat::kMmap);
  CHECK_THROWS_AS(DatasetIndex::parse(idx, 20), DataError);
}

TEST_CASE("Megatron's item modes behind the document index are accepted", "[data]") {
  Bytes idx = small_index(IndexFormat::kMmap, ItemType::kInt32);
  idx.resize(idx.size() + 3);
  CHECK(DatasetIndex::parse(idx, 20).size() == 3);
  idx.resize(idx.size() + 1);
  CHECK_THROWS_AS(DatasetIndex::parse(idx, 20), DataError);
}

TEST_CASE("every way an index can lie about its files is found", "[data]") {
  for (const IndexFormat format : {IndexFormat::kMmap, IndexFormat::kCached}) {
    const Bytes good = small_index(format, ItemType::kInt32);
    REQUIRE_NOTHROW(DatasetIndex::parse(good, 20));
    CHECK_THROWS_AS(DatasetIndex::parse(good, 16), DataError);
    CHECK_THROWS_AS(DatasetIndex::parse(good, 24), DataError);
    for (size_t length = 0; length < good.size(); ++length) {
      CHECK_THROWS_AS(DatasetIndex::parse({good.data(), length}, 20), DataError);
    }
    // Any single 8-byte field replaced by a wild value is refused or harmless, never a wild access.
    for (size_t at = 0; at + 8 <= good.size(); ++at) {
      for (const int64_t value :
           {int64_t{-1}, int64_t{1} << 62, int64_t{1000}, int64_t{0},
            std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
        Bytes bad = good;
        poke(bad, at, value, 8);
        try {
          const DatasetIndex index = DatasetIndex::parse(bad, 20);
          for (int64_t i = 0; i < index.size(); ++i) {
            CHECK(index.byte_offset(i) + index.numel(i) * bytes_per_token(index.type()) <= 20);
          }
        } catch (const DataError&) {
        }
      }
    }
  }
  CHECK_THROWS_AS(DatasetIndex::parse(Bytes(64), 0), DataError);
}

TEST_CASE("numbers that cannot be subtracted are named as they are", "[data]") {
  const Bytes good = small_index(IndexFormat::kCached, ItemType::kInt32);
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  std::string said;
  for (size_t at = 0; at + 8 <= good.size(); at += 8) {
    Bytes bad = good;
    poke(bad, at, kLowest, 8);
    try {
      DatasetIndex::parse(bad, 20);
    } catch (const DataError& error) {
      said += error.what();
    }
  }
  CHECK_THAT(said, Catch::Contains(fmt::format("has dimensions [{}, 1)", kLowest)));
  CHECK_THAT(said, Catch::Contains(fmt::format("has data offsets [{}, 3)", kLowest)));
}

TEST_CASE("reading past an item or outside the data set is a caller mistake", "[data]") {
  const Bytes idx = small_index(IndexFormat::kMmap, ItemType::kInt32);
  const Bytes bin(20);
  const IndexedDataset data = IndexedDataset::view(idx, bin);
  std::vector<int64_t> out(3);
  CHECK_THROWS_AS(data.read<int64_t>(0, 1, out), InternalError);
  CHECK_THROWS_AS(data.numel(3), InternalError);
  CHECK_THROWS_AS(data.numel(-1), InternalError);
  CHECK(data.clamped_range(-2, std::nullopt) == std::pair<int64_t, int64_t>{1, 3});
  CHECK(data.clamped_range(2, 1) == std::pair<int64_t, int64_t>{2, 2});
  CHECK(data.clamped_range(std::nullopt, 99) == std::pair<int64_t, int64_t>{0, 3});
}

TEST_CASE("small vocabularies take two bytes a token", "[data]") {
  CHECK(best_item_type(65499) == ItemType::kUint16);
  CHECK(best_item_type(65500) == ItemType::kInt32);
  CHECK(best_item_type(std::nullopt) == ItemType::kInt32);
  CHECK(item_type_named("uint32") == ItemType::kUint32);
  CHECK_FALSE(item_type_named("float32"));
}
