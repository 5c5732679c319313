// Indexed data sets of random items, in both forms and every type of token: what was written is
// what is read, whole, in parts and after merging, and tokens that do not fit are refused.
#include <cstring>
#include <limits>
#include <random>

#include "core/status/error.h"
#include "data/indexed_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

using namespace ds;

namespace {

using Items = std::vector<std::vector<int64_t>>;

constexpr ItemType kTypes[] = {ItemType::kUint8, ItemType::kInt8,  ItemType::kInt16,
                               ItemType::kInt32, ItemType::kInt64, ItemType::kUint16,
                               ItemType::kUint32};

// The smallest and the largest token of a type that int64 holds.
std::pair<int64_t, int64_t> bounds_of(ItemType type) {
  switch (type) {
    case ItemType::kUint8:
      return {0, 255};
    case ItemType::kInt8:
      return {-128, 127};
    case ItemType::kInt16:
      return {-32768, 32767};
    case ItemType::kUint16:
      return {0, 65535};
    case ItemType::kInt32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case ItemType::kUint32:
      return {0, std::numeric_limits<uint32_t>::max()};
    case ItemType::kInt64:
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    case ItemType::kUint64:
      return {0, std::numeric_limits<int64_t>::max()};
  }
  return {0, 0};
}

struct Made {
  Items items;
  std::vector<int64_t> ends;  // of documents, in items
};

Made random_set(std::mt19937_64& random, ItemType type) {
  const auto [low, high] = bounds_of(type);
  Made made;
  for (size_t i = 1 + random() % 12; i > 0; --i) {
    auto& item = made.items.emplace_back();
    for (size_t n = random() % 9; n > 0; --n) {
      const uint64_t draw = random() % 3;
      item.push_back(draw == 0 ? low : draw == 1 ? high : static_cast<int64_t>(random() % 100));
    }
    if (random() % 3 == 0) made.ends.push_back(std::ssize(made.items));
  }
  return made;
}

void write(const std::string& prefix, const Made& made, IndexFormat format, ItemType type) {
  RealFileSystem files;
  IndexedDatasetWriter writer(files, prefix, {format, type});
  size_t next_end = 0;
  for (size_t i = 0; i < made.items.size(); ++i) {
    writer.add_item(made.items[i]);
    if (next_end < made.ends.size() && made.ends[next_end] == static_cast<int64_t>(i) + 1) {
      writer.end_document();
      ++next_end;
    }
  }
  writer.finish();
}

Items items_of(const IndexedDataset& data) {
  Items out;
  for (int64_t i = 0; i < data.size(); ++i) {
    auto& item = out.emplace_back(static_cast<size_t>(data.numel(i)));
    data.read<int64_t>(i, 0, item);
  }
  return out;
}

}  // namespace

TEST_CASE("random items of every type come back from both forms", "[data]") {
  const testing::TemporaryDirectory here;
  std::mt19937_64 random(41);
  for (const IndexFormat format : {IndexFormat::kMmap, IndexFormat::kCached}) {
    for (const ItemType type : kTypes) {
      for (int trial = 0; trial < 6; ++trial) {
        const Made made = random_set(random, type);
        const std::string prefix = here.path() / "set";
        write(prefix, made, format, type);
        const IndexedDataset data = IndexedDataset::open(prefix);
        CAPTURE(to_string(type), trial);
        REQUIRE(data.type() == type);
        REQUIRE(data.index().format() == format);
        REQUIRE(items_of(data) == made.items);
        REQUIRE(data.documents() == std::ssize(made.ends));
        int64_t first = 0;
        for (int64_t k = 0; k < data.documents(); ++k) {
          const int64_t end = made.ends[static_cast<size_t>(k)];
          CHECK(data.document(k) == std::pair(first, end));
          first = end;
        }
      }
    }
  }
}

TEST_CASE("every part of an item is read as the whole says", "[data]") {
  const testing::TemporaryDirectory here;
  const std::string prefix = here.path() / "set";
  const Made made{.items = {{1, 2, 3, 4, 5, 6, 7}, {}, {8}}, .ends = {3}};
  write(prefix, made, IndexFormat::kMmap, ItemType::kUint16);
  const IndexedDataset data = IndexedDataset::open(prefix);
  for (int64_t begin = 0; begin <= 7; ++begin) {
    for (int64_t end = begin; end <= 7; ++end) {
      std::vector<int32_t> part(static_cast<size_t>(end - begin));
      data.read<int32_t>(0, begin, part);
      for (int64_t i = begin; i < end; ++i) {
        CHECK(part[static_cast<size_t>(i - begin)] == static_cast<int32_t>(i + 1));
      }
    }
  }
  CHECK(data.bytes(0).size() == 14);
  CHECK(data.bytes(1).empty());
}

TEST_CASE("merged sets are the one behind the other", "[data]") {
  const testing::TemporaryDirectory here;
  std::mt19937_64 random(42);
  for (int trial = 0; trial < 12; ++trial) {
    const IndexFormat format = trial % 2 == 0 ? IndexFormat::kMmap : IndexFormat::kCached;
    const std::string a = here.path() / "a", b = here.path() / "b", both = here.path() / "both";
    Made first = random_set(random, ItemType::kInt32),
         second = random_set(random, ItemType::kInt32);
    first.ends = {std::ssize(first.items)};
    second.ends = {1, std::ssize(second.items)};
    if (second.items.size() == 1) second.ends.pop_back();
    write(a, first, format, ItemType::kInt32);
    // The parts may be of different forms: only the types have to agree.
    write(b, second, IndexFormat::kMmap, ItemType::kInt32);
    RealFileSystem files;
    IndexedDatasetWriter writer(files, both, {format, ItemType::kInt32});
    writer.merge(a);
    writer.merge(b);
    writer.finish();
    const IndexedDataset data = IndexedDataset::open(both);
    Items expected = first.items;
    expected.insert(expected.end(), second.items.begin(), second.items.end());
    CAPTURE(trial);
    CHECK(items_of(data) == expected);
    CHECK(data.documents() == std::ssize(first.ends) + std::ssize(second.ends));
    CHECK(data.document(0) == std::pair(int64_t{0}, std::ssize(first.items)));
    CHECK(data.document(1).first == std::ssize(first.items));
  }
}

TEST_CASE("a token just outside its type is refused, the last one inside is taken", "[data]") {
  for (const ItemType type : kTypes) {
    if (type == ItemType::kInt64) continue;
    const auto [low, high] = bounds_of(type);
    std::vector<std::byte> out;
    CAPTURE(to_string(type));
    for (const int64_t good : {low, high}) {
      CHECK_NOTHROW(append_tokens<int64_t>(std::vector{good}, type, out));
    }
    CHECK(std::ssize(out) == 2 * bytes_per_token(type));
    for (const int64_t bad : {low - 1, high + 1}) {
      CHECK_THROWS_AS(append_tokens<int64_t>(std::vector{bad}, type, out), DataError);
    }
  }
}

TEST_CASE("a token that the reader's type does not hold is refused where it is read", "[data]") {
  const testing::TemporaryDirectory here;
  const std::string prefix = here.path() / "set";
  write(prefix, {.items = {{1, -1, int64_t{1} << 40}}, .ends = {1}}, IndexFormat::kMmap,
        ItemType::kInt64);
  const IndexedDataset data = IndexedDataset::open(prefix);
  std::vector<int32_t> narrow(1);
  CHECK_NOTHROW(data.read<int32_t>(0, 1, narrow));
  CHECK_THROWS_AS(data.read<int32_t>(0, 2, narrow), DataError);
  std::vector<uint64_t> positive(1);
  CHECK_NOTHROW(data.read<uint64_t>(0, 2, positive));
  CHECK_THROWS_AS(data.read<uint64_t>(0, 1, positive), DataError);
}

TEST_CASE("slices of items are cut off as lists are", "[data]") {
  const testing::TemporaryDirectory here;
  const std::string prefix = here.path() / "set";
  write(prefix, {.items = Items(5, std::vector<int64_t>{1}), .ends = {5}}, IndexFormat::kMmap,
        ItemType::kUint8);
  const IndexedDataset data = IndexedDataset::open(prefix);
  using Bound = std::optional<int64_t>;
  for (int64_t start = -8; start <= 8; ++start) {
    for (int64_t stop = -8; stop <= 8; ++stop) {
      const auto [first, last] = data.clamped_range(start, stop);
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < 5; ++i) {
        const int64_t from = start < 0 ? start + 5 : start, to = stop < 0 ? stop + 5 : stop;
        if (i >= from && i < to) expected.push_back(i);
      }
      CAPTURE(start, stop);
      CHECK(first <= last);
      CHECK(last - first == std::ssize(expected));
      if (!expected.empty()) CHECK(first == expected.front());
    }
  }
  CHECK(data.clamped_range(Bound(), Bound()) == std::pair<int64_t, int64_t>(0, 5));
  CHECK(data.clamped_range(Bound(), Bound(-1)) == std::pair<int64_t, int64_t>(0, 4));
  CHECK(data.clamped_range(Bound(3), Bound()) == std::pair<int64_t, int64_t>(3, 5));
}

TEST_CASE("names of types are those that they are told by", "[data]") {
  for (const ItemType type : kTypes) CHECK(item_type_named(to_string(type)) == type);
  CHECK(item_type_named("uint64") == ItemType::kUint64);
  for (const char* name : {"", "float32", "UINT8", "int", "uint16 "}) {
    CHECK_FALSE(item_type_named(name).has_value());
  }
}

TEST_CASE("every byte of an index may be wrong without harm", "[data]") {
  std::mt19937_64 random(43);
  for (const IndexFormat format : {IndexFormat::kMmap, IndexFormat::kCached}) {
    IndexBuilder builder(format, ItemType::kUint16);
    for (const int64_t numel : {3, 0, 5}) builder.add_item(numel);
    builder.end_document();
    const std::vector<std::byte> whole = builder.serialize();
    size_t refused = 0;
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int bit : {0, 3, 7}) {
        std::vector<std::byte> damaged = whole;
        damaged[at] ^= static_cast<std::byte>(1 << bit);
        try {
          const DatasetIndex index = DatasetIndex::parse(damaged, 16);
          // Whatever is let through stays within the .bin.
          const int64_t width = bytes_per_token(index.type());
          for (int64_t i = 0; i < index.size(); ++i) {
            CHECK(index.byte_offset(i) >= 0);
            CHECK(index.numel(i) >= 0);
            CHECK(index.byte_offset(i) + index.numel(i) * width <= 16);
          }
        } catch (const DataError&) {
          ++refused;
        }
      }
    }
    CHECK(refused > whole.size());
    for (size_t length = 0; length < whole.size(); ++length) {
      CHECK_THROWS_AS(DatasetIndex::parse(std::span(whole).first(length), 16), DataError);
    }
  }
}
