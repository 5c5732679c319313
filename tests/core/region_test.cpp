// Regions of tensors as runs: every element of a cut in order, and nothing that leaves its tensor.
#include "core/values/region.h"

#include <algorithm>
#include <limits>
#include <random>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}

  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  Shape shape() {
    std::vector<int64_t> extents;
    for (int64_t axes = pick(5); axes > 0; --axes) extents.push_back(1 + pick(6));
    return Shape(extents);
  }

  // Each position of each axis stays or goes; ranges may touch, and an axis may keep nothing.
  Cut cut(const Shape& shape) {
    Cut cut;
    for (const int64_t extent : shape.extents()) {
      std::vector<Range>& ranges = cut.axes.emplace_back();
      const int64_t keep = pick(4);  // all of an axis, mostly, or about half
      for (int64_t at = 0; at < extent; ++at) {
        if (keep > 1 && pick(2) == 0) continue;
        const bool touches = !ranges.empty() && ranges.back().end == at;
        if (touches && pick(5) > 0) {
          ++ranges.back().end;
        } else {
          ranges.push_back({at, at + 1});
        }
      }
    }
    return cut;
  }

 private:
  std::mt19937_64 random_;
};

// The elements of the tensor that a cut keeps, asked one by one.
std::vector<int64_t> elements_of(const Cut& cut, const Shape& shape) {
  std::vector<int64_t> out;
  for (int64_t element = 0; element < shape.numel(); ++element) {
    int64_t rest = element;
    bool kept = true;
    for (size_t axis = cut.axes.size(); axis-- > 0; rest /= shape.extents()[axis]) {
      const int64_t at = rest % shape.extents()[axis];
      kept = kept && std::ranges::any_of(cut.axes[axis], [&](const Range& range) {
               return range.begin <= at && at < range.end;
             });
    }
    if (kept) out.push_back(element);
  }
  return out;
}

std::vector<int64_t> elements_of(const std::vector<Run>& runs) {
  std::vector<int64_t> out;
  for (const Run& run : runs) {
    REQUIRE(run.inside == static_cast<int64_t>(out.size()));
    for (int64_t i = 0; i < run.numel; ++i) out.push_back(run.first + i);
  }
  return out;
}

}  // namespace

TEST_CASE("the runs of a region are the elements that its cut keeps and its range picks",
          "[region]") {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    Dice dice(seed);
    const Shape shape = dice.shape();
    const Cut cut = dice.cut(shape);
    const std::vector<int64_t> kept = elements_of(cut, shape);
    const auto numel = static_cast<int64_t>(kept.size());
    CAPTURE(seed, shape.to_string(), numel);
    CHECK(cut.shape_in(shape).numel() == numel);
    CHECK(Region::all_of(cut, shape).numel() == numel);
    for (int64_t begin = 0; begin <= numel; begin += 1 + dice.pick(7)) {
      const int64_t end = begin + dice.pick(numel - begin + 1);
      const std::vector<Run> runs = runs_of({cut, {begin, end}}, shape);
      CHECK(elements_of(runs) == std::vector<int64_t>(kept.begin() + begin, kept.begin() + end));
      for (size_t i = 1; i < runs.size(); ++i) {  // none could be joined
        CHECK(runs[i].first > runs[i - 1].first + runs[i - 1].numel);
      }
    }
  }
}

TEST_CASE("a packed projection is cut in three places of one axis", "[region]") {
  const Shape packed{2, 12};  // q, k and v of four columns each; the second of two ranks
  const Region region = Region::all_of({{{{0, 2}}, {{2, 4}, {6, 8}, {10, 12}}}}, packed);
  CHECK(region.cut.shape_in(packed) == Shape{2, 6});
  CHECK(runs_of(region, packed) ==
        std::vector<Run>{{2, 2, 0}, {6, 2, 2}, {10, 2, 4}, {14, 2, 6}, {18, 2, 8}, {22, 2, 10}});
  // What ZeRO's second rank of two owns of that: it begins in the middle of a row.
  CHECK(runs_of({region.cut, {5, 9}}, packed) ==
        std::vector<Run>{{11, 1, 0}, {14, 2, 1}, {18, 1, 3}});
}

TEST_CASE("what is contiguous in the whole tensor is one run", "[region]") {
  const Shape shape{3, 4, 5};
  const auto runs = [&](Cut cut) { return runs_of(Region::all_of(std::move(cut), shape), shape); };
  CHECK(runs({}).size() == 1);
  CHECK(runs({{{{0, 3}}, {{0, 4}}, {{0, 5}}}}) == std::vector<Run>{{0, 60, 0}});
  CHECK(runs({{{{1, 3}}, {{0, 4}}, {{0, 5}}}}) == std::vector<Run>{{20, 40, 0}});
  CHECK(runs({{{{0, 1}, {1, 3}}, {{0, 2}, {2, 4}}, {{0, 5}}}}) == std::vector<Run>{{0, 60, 0}});
  CHECK(runs({{{{0, 3}}, {{1, 3}}, {{0, 5}}}}).size() == 3);
  CHECK(runs({{{{0, 2}}, {{0, 1}, {3, 4}}, {{0, 5}}}}) ==
        std::vector<Run>{{0, 5, 0}, {15, 10, 5}, {35, 5, 15}});  // the middle two touch
  CHECK(runs_of(Region::flat(7, 31), shape) == std::vector<Run>{{7, 24, 0}});
  CHECK(runs_of(Region::whole(Shape{}), Shape{}) == std::vector<Run>{{0, 1, 0}});
  CHECK(runs_of(Region::whole(Shape{3, 0}), Shape{3, 0}).empty());
  CHECK(runs({{{{0, 3}}, {}, {{0, 5}}}}).empty());
}

TEST_CASE("an axis of very many ranges is walked once, not once for each row", "[region]") {
  constexpr int64_t kRanges = int64_t{1} << 18;  // squared, this case would not end
  const Shape shape{2 * kRanges, 3};
  Cut cut{{{}, {{1, 2}}}};
  for (int64_t i = 0; i < kRanges; ++i) cut.axes[0].push_back({2 * i, 2 * i + 1});
  const std::vector<Run> runs = runs_of(Region::all_of(cut, shape), shape);
  REQUIRE(runs.size() == static_cast<size_t>(kRanges));
  CHECK(runs.back() == Run{6 * (kRanges - 1) + 1, 1, kRanges - 1});
  CHECK(runs_of({cut, {kRanges - 2, kRanges - 1}}, shape) ==
        std::vector<Run>{{6 * (kRanges - 2) + 1, 1, 0}});
}

TEST_CASE("regions that leave their tensor are refused in words", "[region]") {
  using Catch::Contains;
  const Shape shape{3, 4};
  const auto refused = [&](const Region& region) -> std::string {
    try {
      runs_of(region, shape);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "accepted";
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(refused(Region::flat(0, 12)) == "accepted");
  CHECK_THAT(refused(Region::flat(0, 13)), Contains("elements [0, 13) of shape [3, 4]"));
  CHECK_THAT(refused(Region::flat(0, kMost)), Contains("of shape [3, 4]"));
  CHECK_THAT(refused(Region::flat(5, 4)), Contains("elements [5, 4)"));
  CHECK_THAT(refused(Region::flat(-1, 4)), Contains("elements [-1, 4)"));
  CHECK_THAT(refused({{{{{0, 3}}, {{1, 3}}}}, {0, 7}}),
             Contains("elements [0, 7) of shape [3, 2]"));
  CHECK_THAT(refused({{{{{0, 3}}}}, {0, 1}}), Contains("a cut of 1 axes for shape [3, 4]"));
  CHECK_THAT(refused({{{{{0, 3}}, {{0, 5}}}}, {0, 1}}), Contains("[0, 5) on axis 1"));
  CHECK_THAT(refused({{{{{0, 3}}, {{0, kMost}}}}, {0, 1}}), Contains("on axis 1"));
  CHECK_THAT(refused({{{{{-1, 3}}, {{0, 4}}}}, {0, 1}}), Contains("[-1, 3) on axis 0"));
  CHECK_THAT(refused({{{{{2, 2}}, {{0, 4}}}}, {0, 0}}), Contains("[2, 2) on axis 0"));
  CHECK_THAT(refused({{{{{0, 2}, {1, 3}}, {{0, 4}}}}, {0, 1}}), Contains("[1, 3) on axis 0"));
  CHECK_THAT(refused({{{{{2, 3}, {0, 1}}, {{0, 4}}}}, {0, 1}}), Contains("[0, 1) on axis 0"));
}
