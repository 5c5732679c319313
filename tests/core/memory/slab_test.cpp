// The slab: what is handed out never overlaps, and what is given back comes together again.
#include "core/memory/slab.h"

#include <vector>

#include "core/values/rng.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr size_t kUnit = kSlabAlignment;

// The same by a map of its units, one by one: first fit is the lowest place where so many are free.
class NaiveSlab {
 public:
  explicit NaiveSlab(size_t bytes) : used_(bytes / kUnit, false) {}

  std::optional<size_t> take(size_t bytes) {
    const size_t units = units_of(bytes);
    for (size_t at = 0; at + units <= used_.size(); ++at) {
      if (!is_free(at, units)) continue;
      mark(at, units, true);
      return at * kUnit;
    }
    return std::nullopt;
  }
  void give_back(size_t offset, size_t bytes) { mark(offset / kUnit, units_of(bytes), false); }

  size_t bytes_free() const {
    return static_cast<size_t>(std::ranges::count(used_, false)) * kUnit;
  }
  size_t longest_run() const {
    size_t longest = 0, run = 0;
    for (const bool used : used_) {
      run = used ? 0 : run + 1;
      longest = std::max(longest, run);
    }
    return longest * kUnit;
  }
  size_t runs() const {
    size_t count = 0;
    for (size_t i = 0; i < used_.size(); ++i) count += !used_[i] && (i == 0 || used_[i - 1]);
    return count;
  }

 private:
  static size_t units_of(size_t bytes) { return bytes == 0 ? 1 : (bytes + kUnit - 1) / kUnit; }
  bool is_free(size_t at, size_t units) const {
    for (size_t i = at; i < at + units; ++i) {
      if (used_[i]) return false;
    }
    return true;
  }
  void mark(size_t at, size_t units, bool used) {
    for (size_t i = at; i < at + units; ++i) {
      REQUIRE(used_[i] != used);
      used_[i] = used;
    }
  }

  std::vector<bool> used_;
};

struct Part {
  size_t offset = 0, bytes = 0;
};

size_t size_of_turn(const Rng& rng, uint64_t turn) {
  constexpr size_t kSizes[] = {0, 1, kUnit - 1, kUnit, kUnit + 1, 3 * kUnit, 10 * kUnit};
  const uint32_t draw = rng.bits(3 * turn + 1);
  return draw % 8 == 7 ? rng.bits(3 * turn + 2) % (20 * kUnit) : kSizes[draw % 8 % 7];
}

void run_schedule(uint64_t seed, size_t bytes) {
  const Rng rng(seed, "slab");
  Slab slab(bytes);
  NaiveSlab naive(bytes);
  std::vector<Part> parts;
  int refused = 0;
  for (uint64_t turn = 0; turn < 600; ++turn) {
    // Now more is taken than given back, now less, so that it is full and empty in turn.
    const bool takes = rng.bits(3 * turn) % 8 < (turn / 100 % 2 == 0 ? 6U : 2U);
    if (takes || parts.empty()) {
      const size_t wanted = size_of_turn(rng, turn);
      const std::optional<size_t> offset = slab.take(wanted);
      REQUIRE(offset == naive.take(wanted));
      refused += !offset;
      if (offset) parts.push_back({*offset, wanted});
    } else {
      const size_t index = rng.bits(3 * turn + 1) % parts.size();
      slab.give_back(parts[index].offset);
      naive.give_back(parts[index].offset, parts[index].bytes);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(index));
    }
    REQUIRE(slab.bytes_free() == naive.bytes_free());
    REQUIRE(slab.longest_run() == naive.longest_run());
    REQUIRE(slab.runs() == naive.runs());
    REQUIRE(slab.taken().size() == parts.size());
    for (const Part& part : parts) REQUIRE(slab.taken().at(part.offset) == part.bytes);
  }
  CHECK(refused > 0);
  for (const Part& part : parts) slab.give_back(part.offset);
  CHECK(slab.taken().empty());
  CHECK(slab.runs() == 1);
  CHECK(slab.longest_run() == slab.bytes());
  CHECK(slab.take(slab.bytes()) == 0);
}

}  // namespace

TEST_CASE("any order of taking and giving back does what a naive model of the slab does",
          "[core]") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    run_schedule(seed, 60 * kUnit + seed);
  }
}

TEST_CASE("a slab is full to its last aligned byte, and gives nothing beyond", "[core]") {
  Slab slab(4 * kUnit + 255);
  CHECK(slab.bytes() == 4 * kUnit);
  CHECK_FALSE(slab.take(4 * kUnit + 1));
  CHECK_FALSE(slab.take(SIZE_MAX));
  CHECK(slab.take(3 * kUnit + 1) == 0);
  CHECK(slab.bytes_free() == 0);
  CHECK_FALSE(slab.take(0));
  slab.give_back(0);
  CHECK(slab.take(0) == 0);
  CHECK(slab.take(0) == kUnit);
  CHECK_FALSE(Slab(0).take(0));
  CHECK_FALSE(Slab(kUnit - 1).take(1));
}

TEST_CASE("a free run grows to its left, to its right and to both", "[core]") {
  Slab slab(5 * kUnit);
  for (size_t i = 0; i < 5; ++i) REQUIRE(slab.take(kUnit) == i * kUnit);
  slab.give_back(kUnit);
  slab.give_back(3 * kUnit);
  CHECK(slab.runs() == 2);
  CHECK(slab.longest_run() == kUnit);
  CHECK_FALSE(slab.take(2 * kUnit));
  slab.give_back(2 * kUnit);
  CHECK(slab.runs() == 1);
  CHECK(slab.longest_run() == 3 * kUnit);
  slab.give_back(0);
  CHECK(slab.longest_run() == 4 * kUnit);
  slab.give_back(4 * kUnit);
  CHECK(slab.longest_run() == 5 * kUnit);
  CHECK(slab.take(5 * kUnit) == 0);
}

}  // namespace ds
