// Our words for what cufile's functions take and return against its own header, where the build has
// found one.
#include "tests/core/libraries/abi/facts.h"
#include "tests/support/catch.h"

TEST_CASE("types and functions of cufile are those of its header", "[core]") {
  const auto ours = ds::abi::cufile_of_ours(), theirs = ds::abi::cufile_of_theirs();
  REQUIRE(ours.size() == theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == theirs[i]);
}
