// Tensors of random shapes, saved in random layouts and read back in others: cut along several axes
// into several ranges each as tensor parallelism does, as flat slices of the cuts as ZeRO does, by
// ranks that hold some of the tensors as pipelines do. Every element is the one that was saved.
#include <algorithm>
#include <random>

#include "core/status/error.h"
#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using namespace ds::testing;

namespace {

class Cutter {
 public:
  explicit Cutter(uint32_t seed) : random_(seed) {}

  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  Shape shape() {
    std::vector<int64_t> extents;
    for (int64_t axes = 1 + pick(4); axes > 0; --axes) extents.push_back(1 + pick(6));
    return Shape(extents);
  }

  // Pieces that hold every element once: the tensor is cut over some ranks, each cut over others.
  std::vector<Region> layout(const Shape& shape) {
    std::vector<Region> out;
    for (const Cut& cut : cuts(shape)) {
      for (const Range& slice : slices(cut.shape_in(shape).numel())) out.push_back({cut, slice});
    }
    return out;
  }

  std::vector<Region> ranges(int64_t numel) {
    std::vector<Region> out;
    for (const Range& slice : slices(numel)) out.push_back(Region::flat(slice.begin, slice.end));
    return out;
  }

  // One part of a cut of the tensor, from anywhere to anywhere.
  Region region_inside(const Shape& shape) {
    const std::vector<Cut> all = cuts(shape);
    const Cut& cut = all[static_cast<size_t>(pick(static_cast<int64_t>(all.size())))];
    const Region flat = range_inside(cut.shape_in(shape).numel());
    return {cut, flat.within};
  }

  Region range_inside(int64_t numel) {
    const int64_t begin = pick(numel);
    return Region::flat(begin, begin + 1 + pick(numel - begin));
  }

 private:
  // Every position of an axis is dealt to one of up to three parts.
  std::vector<std::vector<Range>> parts_of(int64_t extent) {
    std::vector<std::vector<Range>> parts(static_cast<size_t>(1 + pick(3)));
    for (int64_t at = 0; at < extent; ++at) {
      std::vector<Range>& ranges =
          parts[static_cast<size_t>(pick(static_cast<int64_t>(parts.size())))];
      if (!ranges.empty() && ranges.back().end == at) {
        ++ranges.back().end;
      } else {
        ranges.push_back({at, at + 1});
      }
    }
    std::erase_if(parts, [](const std::vector<Range>& ranges) { return ranges.empty(); });
    return parts;
  }

  std::vector<Cut> cuts(const Shape& shape) {
    if (pick(4) == 0) return {Cut{}};
    std::vector<Cut> out(1);
    for (const int64_t extent : shape.extents()) {
      std::vector<Cut> longer;
      for (const std::vector<Range>& part : parts_of(extent)) {
        for (Cut cut : out) {
          cut.axes.push_back(part);
          longer.push_back(std::move(cut));
        }
      }
      out = std::move(longer);
    }
    return out;
  }

  std::vector<Range> slices(int64_t numel) {
    std::vector<Range> out;
    for (int64_t begin = 0; begin < numel; begin = out.back().end) {
      out.push_back({begin, begin + 1 + pick(numel - begin)});
    }
    return out;
  }

  std::mt19937_64 random_;
};

// What a region of the tensor first, first + 1, ... holds, element by element.
std::vector<float> expected_of(const Region& region, const Shape& shape, float first = 0) {
  std::vector<float> kept;
  for (int64_t element = 0; element < shape.numel(); ++element) {
    int64_t rest = element;
    bool inside = true;
    for (size_t axis = region.cut.axes.size(); axis-- > 0; rest /= shape.extents()[axis]) {
      const int64_t at = rest % shape.extents()[axis];
      inside = inside && std::ranges::any_of(region.cut.axes[axis], [&](const Range& range) {
                 return range.begin <= at && at < range.end;
               });
    }
    if (inside) kept.push_back(first + static_cast<float>(element));
  }
  return {kept.begin() + region.within.begin, kept.begin() + region.within.end};
}

Tensor owning(std::vector<float> values) {
  auto held = std::make_shared<std::vector<float>>(std::move(values));
  return Tensor::borrow(held->data(), Shape{static_cast<int64_t>(held->size())}, DType::kF32,
                        Device::cpu(), held);
}

struct Held {
  size_t tensor;
  Region region;
};

std::string name_of_tensor(size_t tensor) { return fmt::format("t{}", tensor); }

float first_of(size_t tensor) { return 10000 * static_cast<float>(tensor); }

// What each rank holds.
void save(FileSystem& fs, const std::vector<Shape>& shapes,
          const std::vector<std::vector<Held>>& ranks) {
  CommitRequest request{"/c", "tag", 1, 1, {}};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    CheckpointWriter writer(fs, {"/c", "tag", 1, static_cast<int>(rank)}, 0);
    for (const auto& [tensor, region] : ranks[rank]) {
      writer.put({name_of_tensor(tensor), shapes[tensor], region,
                  owning(expected_of(region, shapes[tensor], first_of(tensor)))});
    }
    request.votes.push_back(writer.finish());
  }
  commit_tag(fs, request);
}

// One tensor in these pieces, dealt out to the ranks.
void save(FileSystem& fs, const Shape& shape, const std::vector<Region>& pieces, int ranks) {
  std::vector<std::vector<Held>> held(static_cast<size_t>(ranks));
  for (size_t i = 0; i < pieces.size(); ++i) held[i % held.size()].push_back({0, pieces[i]});
  save(fs, {shape}, held);
}

std::vector<float> read(CheckpointReader& reader, size_t tensor, const Region& region) {
  Tensor into = zeros(region.numel());
  reader.get(name_of_tensor(tensor), region, into);
  return values_of(into);
}

}  // namespace

TEST_CASE("whatever layout some tensors were saved in, every other layout reads them",
          "[checkpoint]") {
  int cut_regions_read = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Cutter cutter(seed);
    const std::vector<Shape> shapes{cutter.shape(), cutter.shape(), cutter.shape()};
    const int ranks = static_cast<int>(1 + cutter.pick(6));
    std::vector<std::vector<Held>> held(static_cast<size_t>(ranks));
    for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
      const int64_t first = cutter.pick(ranks);  // the stage of a pipeline: some ranks in a row
      const int64_t count = 1 + cutter.pick(ranks - first);
      int64_t next = 0;
      for (const Region& region : cutter.layout(shapes[tensor])) {
        held[static_cast<size_t>(first + next++ % count)].push_back({tensor, region});
      }
    }
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    save(fs, shapes, held);
    CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
    for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
      CAPTURE(seed, tensor, shapes[tensor].to_string(), ranks);
      REQUIRE(reader.info(name_of_tensor(tensor)).shape == shapes[tensor]);
      for (const Region& region : cutter.layout(shapes[tensor])) {
        cut_regions_read += region.cut.is_whole() ? 0 : 1;
        REQUIRE(read(reader, tensor, region) ==
                expected_of(region, shapes[tensor], first_of(tensor)));
      }
    }
  }
  CHECK(cut_regions_read > 1000);
}

TEST_CASE("pieces that overlap are read, each element from the first rank that holds it",
          "[checkpoint]") {
  for (uint32_t seed = 0; seed < 100; ++seed) {  // replicated in part, all alike
    Cutter cutter(seed);
    const Shape shape = cutter.shape();
    std::vector<std::vector<Held>> held(3);
    for (std::vector<Held>& rank : held) {
      for (const Region& region : cutter.layout(shape)) {
        if (&rank == &held[1] || cutter.pick(3) > 0) rank.push_back({0, region});
      }
    }
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    save(fs, {shape}, held);
    CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
    const Region region = cutter.region_inside(shape);
    CAPTURE(seed, shape.to_string());
    REQUIRE(read(reader, 0, Region::whole(shape)) == expected_of(Region::whole(shape), shape));
    REQUIRE(read(reader, 0, region) == expected_of(region, shape));
  }
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  CommitRequest request{"/c", "tag", 1, 1, {}};
  const std::vector<Region> regions{Region::flat(2, 4), Region::flat(0, 5), Region::flat(3, 6)};
  for (int rank = 0; rank < 3; ++rank) {
    const Region& region = regions[static_cast<size_t>(rank)];
    CheckpointWriter writer(fs, {"/c", "tag", 1, rank}, 0);
    writer.put({"t0", Shape{6}, region,
                counting(region.numel(), static_cast<float>(100 * rank + region.within.begin))});
    request.votes.push_back(writer.finish());
  }
  commit_tag(fs, request);
  CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
  CHECK(read(reader, 0, Region::flat(0, 6)) == std::vector<float>{100, 101, 2, 3, 104, 205});
  CHECK(reader.ranks_holding("t0", Region::flat(2, 4)) == std::set<int>{0});
  CHECK(reader.ranks_holding("t0", Region::flat(3, 6)) == std::set<int>{0, 1, 2});
}

TEST_CASE("the ranks that are said to hold a region are those that saved a part of it",
          "[checkpoint]") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Cutter cutter(seed);
    const Shape shape = cutter.shape();
    const std::vector<Region> pieces = cutter.layout(shape);
    const int ranks = static_cast<int>(1 + cutter.pick(4));
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    save(fs, shape, pieces, ranks);
    const CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
    const Region wanted = cutter.region_inside(shape);
    const std::vector<float> elements = expected_of(wanted, shape);
    std::set<int> expected;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::vector<float> held = expected_of(pieces[i], shape);
      if (std::ranges::find_first_of(held, elements) != held.end()) {
        expected.insert(static_cast<int>(i) % ranks);
      }
    }
    CAPTURE(seed);
    CHECK(reader.ranks_holding("t0", wanted) == expected);
  }
}

TEST_CASE("an element that no rank saved is named, and a region without it reads", "[checkpoint]") {
  int holes = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Cutter cutter(seed);
    const Shape shape{cutter.pick(5) + 2, cutter.pick(5) + 2};
    std::vector<Region> pieces = cutter.layout(shape);
    if (pieces.size() < 2) continue;
    ++holes;
    const Region lost = pieces.back();
    pieces.pop_back();
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    save(fs, shape, pieces, 2);
    CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
    Tensor all = counting(shape.numel(), 500);
    const int64_t first = runs_of(lost, shape)[0].first;
    CAPTURE(seed);
    CHECK_THROWS_WITH(reader.get("t0", Region::whole(shape), all),
                      Catch::Contains(fmt::format("no piece covers element {} of 't0'", first)));
    CHECK(values_of(all) == values_of(counting(shape.numel(), 500)));  // nothing was read at all
    const Region before = Region::flat(0, first);
    CHECK(read(reader, 0, before) == expected_of(before, shape));
    for (const Region& piece : pieces) {
      CHECK(read(reader, 0, piece) == expected_of(piece, shape));
    }
  }
  CHECK(holes > 50);
}

TEST_CASE("a tensor cut by columns over many ranks is read file by file, not row by row",
          "[checkpoint]") {
  constexpr int64_t kRanks = 40;  // more than blocks are kept
  const Shape shape{9, kRanks};
  std::vector<Region> columns;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    columns.push_back(Region::all_of({{{{0, 9}}, {{rank, rank + 1}}}}, shape));
  }
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save(fs, shape, columns, kRanks);
  FaultFileSystem counting_reads(fs);
  CheckpointReader reader = CheckpointReader::open(counting_reads, "/c", "tag");
  const int64_t opened = counting_reads.read_count();
  CHECK(read(reader, 0, Region::whole(shape)) == expected_of(Region::whole(shape), shape));
  CHECK(counting_reads.read_count() - opened == kRanks);  // one block each
}

TEST_CASE("states are found from whichever rank put them, and of several the lowest counts",
          "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  CommitRequest request{"/c", "tag", 1, 1, {}};
  for (int rank = 0; rank < 3; ++rank) {
    CheckpointWriter writer(fs, {"/c", "tag", 1, rank}, 0);
    if (rank > 0) writer.put_state("shared", fmt::format("\"of {}\"", rank));
    if (rank == 2) writer.put_state("last", "\xC3\xA9 \"quoted\"\n");
    request.votes.push_back(writer.finish());
  }
  commit_tag(fs, request);
  const CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
  CHECK(reader.state("shared") == "\"of 1\"");
  CHECK(reader.state("last") == "\xC3\xA9 \"quoted\"\n");
  CHECK(reader.has_state("last"));
  CHECK_FALSE(reader.has_state("first"));
  CHECK_THROWS_AS(reader.state("first"), ValidationError);
  CHECK(reader.names().empty());
}

TEST_CASE("ranks that tell different types or shapes of one tensor are refused", "[checkpoint]") {
  const auto opened = [](const Shape& other, DType dtype) {
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    CommitRequest request{"/c", "tag", 1, 1, {}};
    CheckpointWriter first(fs, {"/c", "tag", 1, 0}, 0);
    first.put({"t", Shape{4}, Region::flat(0, 2), counting(2, 0)});
    request.votes.push_back(first.finish());
    CheckpointWriter second(fs, {"/c", "tag", 1, 1}, 0);
    std::vector<float> memory(4);
    second.put({"t", other, Region::flat(2, 4), Tensor::borrow(memory.data(), Shape{2}, dtype)});
    request.votes.push_back(second.finish());
    commit_tag(fs, request);
    CheckpointReader::open(fs, "/c", "tag");
  };
  CHECK_NOTHROW(opened(Shape{4}, DType::kF32));
  CHECK_THROWS_AS(opened(Shape{5}, DType::kF32), ValidationError);
  CHECK_THROWS_AS(opened(Shape{2, 2}, DType::kF32), ValidationError);
  CHECK_THROWS_AS(opened(Shape{4}, DType::kBF16), ValidationError);
}
