// Tensors of random shapes, cut at random over random numbers of ranks as flat ranges and as boxes,
// and read back in regions of other cuts: every element is the one that was saved.
#include <random>

#include "core/error.h"
#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"

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

  // Boxes that cover the shape without overlapping: it is halved at random places.
  std::vector<Region> boxes(const Shape& shape) {
    std::vector<Region> out;
    const auto& extents = shape.extents();
    cut({std::vector<int64_t>(extents.size(), 0), {extents.begin(), extents.end()}}, 3, out);
    return out;
  }

  std::vector<Region> ranges(int64_t numel) {
    std::vector<Region> out;
    cut(Region::flat(0, numel), 3, out);
    return out;
  }

  Region box_inside(const Shape& shape) {
    Region box;
    for (const int64_t extent : shape.extents()) {
      const int64_t begin = pick(extent);
      box.begin.push_back(begin);
      box.end.push_back(begin + 1 + pick(extent - begin));
    }
    return box;
  }

  Region range_inside(int64_t numel) {
    const int64_t begin = pick(numel);
    return Region::flat(begin, begin + 1 + pick(numel - begin));
  }

 private:
  void cut(const Region& region, int depth, std::vector<Region>& out) {
    const auto axis = static_cast<size_t>(pick(static_cast<int64_t>(region.begin.size())));
    const int64_t extent = region.end[axis] - region.begin[axis];
    if (depth == 0 || extent < 2) {
      out.push_back(region);
      return;
    }
    const int64_t at = region.begin[axis] + 1 + pick(extent - 1);
    Region low = region, high = region;
    low.end[axis] = at;
    high.begin[axis] = at;
    cut(low, depth - 1, out);
    cut(high, depth - 1, out);
  }

  std::mt19937_64 random_;
};

// What a region of the tensor 0, 1, 2, ... holds, element by element.
std::vector<float> expected_of(const Region& region, const Shape& shape) {
  std::vector<float> out;
  const std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  for (int64_t element = 0; element < shape.numel(); ++element) {
    bool inside = true;
    if (region.begin.size() == 1) {
      inside = element >= region.begin[0] && element < region.end[0];
    } else {
      int64_t rest = element;
      for (size_t axis = extents.size(); axis-- > 0; rest /= extents[axis]) {
        const int64_t at = rest % extents[axis];
        inside = inside && at >= region.begin[axis] && at < region.end[axis];
      }
    }
    if (inside) out.push_back(static_cast<float>(element));
  }
  return out;
}

Tensor owning(std::vector<float> values) {
  auto held = std::make_shared<std::vector<float>>(std::move(values));
  return Tensor::borrow(held->data(), Shape{static_cast<int64_t>(held->size())}, DType::kF32,
                        Device::cpu(), held);
}

// Saves the tensor "t" in these pieces, dealt out to the ranks.
void save(FileSystem& fs, const Shape& shape, const std::vector<Region>& pieces, int ranks) {
  CommitRequest request{"/c", "tag", 1, 1, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    CheckpointWriter writer(fs, {"/c", "tag", 1, rank}, 0);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (static_cast<int>(i) % ranks != rank) continue;
      writer.put({"t", shape, pieces[i], owning(expected_of(pieces[i], shape))});
    }
    request.votes.push_back(writer.finish());
  }
  commit_tag(fs, request);
}

}  // namespace

TEST_CASE("whatever way a tensor was cut, every other cut of it reads back", "[checkpoint]") {
  int boxes_read = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Cutter cutter(seed);
    const Shape shape = cutter.shape();
    const bool flat = cutter.pick(2) == 0;
    const std::vector<Region> pieces = flat ? cutter.ranges(shape.numel()) : cutter.boxes(shape);
    const int ranks = static_cast<int>(1 + cutter.pick(5));
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    save(fs, shape, pieces, ranks);
    CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
    CAPTURE(seed, shape.to_string(), pieces.size(), ranks);
    REQUIRE(reader.info("t").shape == shape);
    for (int i = 0; i < 6; ++i) {
      const Region region =
          i % 2 == 0 ? cutter.range_inside(shape.numel()) : cutter.box_inside(shape);
      boxes_read += region.begin.size() > 1 ? 1 : 0;
      Tensor into = zeros(region.numel());
      reader.get("t", region, into);
      REQUIRE(values_of(into) == expected_of(region, shape));
    }
  }
  CHECK(boxes_read > 200);
}

TEST_CASE("the ranks that are said to hold a region are those that saved a part of it",
          "[checkpoint]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Cutter cutter(seed);
    const Shape shape = cutter.shape();
    const std::vector<Region> pieces = cutter.ranges(shape.numel());
    const int ranks = static_cast<int>(1 + cutter.pick(4));
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    save(fs, shape, pieces, ranks);
    const CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
    const Region wanted = cutter.range_inside(shape.numel());
    std::set<int> expected;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool overlaps =
          pieces[i].begin[0] < wanted.end[0] && wanted.begin[0] < pieces[i].end[0];
      if (overlaps) expected.insert(static_cast<int>(i) % ranks);
    }
    CAPTURE(seed);
    CHECK(reader.ranks_holding("t", wanted) == expected);
  }
}

TEST_CASE("an element that no rank saved is named, and a region without it reads", "[checkpoint]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Cutter cutter(seed);
    const Shape shape{cutter.pick(5) + 2, cutter.pick(5) + 2};
    std::vector<Region> pieces = cutter.ranges(shape.numel());
    if (pieces.size() < 2) continue;
    const Region lost = pieces.back();
    pieces.pop_back();
    MemoryFileSystem fs;
    open_epoch(fs, "/c", 1);
    save(fs, shape, pieces, 2);
    CheckpointReader reader = CheckpointReader::open(fs, "/c", "tag");
    Tensor all = zeros(shape.numel());
    CAPTURE(seed);
    CHECK_THROWS_WITH(
        reader.get("t", Region::whole(shape), all),
        Catch::Contains(fmt::format("no piece covers element {} of 't'", lost.begin[0])));
    Tensor rest = zeros(lost.begin[0]);
    reader.get("t", Region::flat(0, lost.begin[0]), rest);
    CHECK(values_of(rest) == expected_of(Region::flat(0, lost.begin[0]), shape));
  }
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
