// Sparse attention layouts, by tests/golden/sparse_layout.txt; random blocks by their properties.
#include "model/sparse_layout.h"

#include <fmt/format.h>

#include "core/status/error.h"
#include "tests/support/arguments.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;
using ds::testing::Arguments;

namespace {

AttentionDirection direction_of(const Arguments& args) {
  return args.has("uni") ? AttentionDirection::kUnidirectional : AttentionDirection::kBidirectional;
}
HeadLayout heads_of(const Arguments& args) {
  return args.has("per_head") ? HeadLayout::kPerHead : HeadLayout::kShared;
}
GlobalRows rows_of(const Arguments& args) {
  return args.has("rows") ? GlobalRows::kOn : GlobalRows::kOff;
}
GlobalBlocks global_of(const Arguments& args) {
  if (!args.has("first")) return {};
  if (!args.has("last")) return {args.list<int64_t>("first"), {}};
  return {args.list<int64_t>("first"), args.list<int64_t>("last")};
}

SparseLayoutRule rule_of(const Arguments& args) {
  if (args.verb == "dense") return DenseLayout{};
  if (args.verb == "fixed") {
    return FixedLayout{
        heads_of(args), args.integer("local", 4),   args.integer("global", 1), direction_of(args),
        rows_of(args),  args.integer("patterns", 1)};
  }
  if (args.verb == "variable") {
    return VariableLayout{heads_of(args),  args.integer("random", 0), args.list<int64_t>("windows"),
                          global_of(args), direction_of(args),        rows_of(args)};
  }
  if (args.verb == "bigbird") {
    return BigBirdLayout{heads_of(args), args.integer("random", 0), args.integer("window", 3),
                         args.integer("global", 1), direction_of(args)};
  }
  if (args.verb == "bslongformer") {
    return BsLongformerLayout{heads_of(args), args.integer("window", 3), global_of(args),
                              direction_of(args)};
  }
  return SlidingWindowLayout{args.integer("window", 3), direction_of(args)};
}

std::string answer(const std::string& command) {
  const Arguments args(command);
  try {
    const BlockLayout layout =
        sparse_layout(rule_of(args), args.integer("heads", 1), args.integer("length"),
                      args.integer("block", 1), Rng(1, "layout"));
    std::string out;
    for (int64_t row = 0; row < layout.blocks(); ++row) {
      for (int64_t head = 0; head < layout.heads(); ++head) {
        out += (head == 0 ? "" : "  ") + layout.row_text(head, row);
      }
      out += '\n';
    }
    return out;
  } catch (const ConfigError& error) {
    return fmt::format("error: {}\n", error.what());
  }
}

}  // namespace

TEST_CASE("sparse layouts follow the golden file", "[model]") {
  ds::testing::run_golden("sparse_layout.txt", answer);
}

TEST_CASE("random blocks come from the seed and differ between heads when asked", "[model]") {
  BigBirdLayout rule{.heads = HeadLayout::kPerHead, .num_random_blocks = 2};
  const BlockLayout a = sparse_layout(rule, 4, 640, 16, Rng(1, "layout"));
  const BlockLayout b = sparse_layout(rule, 4, 640, 16, Rng(1, "layout"));
  bool heads_differ = false;
  for (int64_t row = 0; row < a.blocks(); ++row) {
    CHECK(a.row_text(2, row) == b.row_text(2, row));
    heads_differ = heads_differ || a.row_text(0, row) != a.row_text(1, row);
  }
  CHECK(heads_differ);
  rule.heads = HeadLayout::kShared;
  const BlockLayout shared = sparse_layout(rule, 2, 640, 16, Rng(1, "layout"));
  for (int64_t row = 0; row < shared.blocks(); ++row) {
    CHECK(shared.row_text(0, row) == shared.row_text(1, row));
  }
}

TEST_CASE("global ends that are given need one entry per start, also when they are none",
          "[model]") {
  VariableLayout rule{.global = {.first = {0}, .last = std::vector<int64_t>{}}};
  CHECK_THROWS_WITH(sparse_layout(rule, 1, 64, 16, Rng(1, "layout")),
                    Catch::Contains("global_block_indices has 1 entries"));
  rule.global.first.clear();
  CHECK(sparse_layout(rule, 1, 64, 16, Rng(1, "layout")).row_text(0, 0) == "1111");
}

TEST_CASE("a causal bigbird never sees later blocks", "[model]") {
  const BigBirdLayout rule{.num_random_blocks = 3,
                           .direction = AttentionDirection::kUnidirectional};
  const BlockLayout layout = sparse_layout(rule, 1, 20, 1, Rng(1, "layout"));
  for (int64_t row = 0; row < 20; ++row) {
    for (int64_t column = row + 1; column < 20; ++column) CHECK_FALSE(layout.at(0, row, column));
  }
  CHECK(layout.count() < 20 * 21 / 2);
}
