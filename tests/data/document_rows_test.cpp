#include "data/document_rows.h"

#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Ints = std::vector<int32_t>;
constexpr int32_t kEnd = 9;

Ints positions_of(const Ints& tokens) {
  Ints out(tokens.size(), -7);
  write_document_positions(tokens, kEnd, out);
  return out;
}

Ints ranges_of(const Ints& tokens) {
  Ints out(2 * tokens.size(), -7);
  write_document_ranges(tokens, kEnd, out);
  return out;
}

TEST_CASE("an end belongs to the document that it ends", "[data]") {
  CHECK(positions_of({1, 2, 9, 3, 9, 9, 4}) == Ints{0, 1, 2, 0, 1, 0, 0});
  CHECK(ranges_of({1, 2, 9, 3, 9, 9, 4}) == Ints{0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 5, 6, 6, 7});
}

TEST_CASE("a sample may begin or stop within a document, and hold no end at all", "[data]") {
  CHECK(positions_of({1, 2, 3}) == Ints{0, 1, 2});
  CHECK(ranges_of({1, 2}) == Ints{0, 2, 0, 2});
  CHECK(positions_of({9}) == Ints{0});
  CHECK(positions_of({}).empty());
}

TEST_CASE("what follows an end is no target", "[data]") {
  const Ints tokens{1, 9, 9, 4};
  Ints targets{9, 9, 4, 5};
  ignore_targets_of_ends(tokens, kEnd, targets);
  CHECK(targets == Ints{9, -1, -1, 5});
}

TEST_CASE("rooms of another size are refused", "[data]") {
  const Ints tokens{1, 2};
  Ints one(1), three(3);
  CHECK_THROWS_AS(write_document_positions(tokens, kEnd, one), InternalError);
  CHECK_THROWS_AS(write_document_ranges(tokens, kEnd, three), InternalError);
  CHECK_THROWS_AS(ignore_targets_of_ends(tokens, kEnd, one), InternalError);
}

}  // namespace
}  // namespace ds
