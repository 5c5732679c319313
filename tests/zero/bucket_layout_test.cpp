#include "zero/layout/bucket_layout.h"

#include <sstream>

#include "core/values/rng.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

// "group 2 bucket 1000 persist 0 : 64/0 100/1/2" -> numel/unit/options of every parameter; "whole
// group ...": slices hold whole parameters.
std::string answer(const std::string& command) {
  std::istringstream in(command);
  std::string word;
  LayoutOptions options;
  in >> word;
  if (word == "whole") {
    options.slicing = Slicing::kWholeParameters;
    in >> word;
  }
  in >> options.group_size >> word >> options.bucket_numel >> word >> options.persistence_numel >>
      word;
  std::vector<LayoutParam> params;
  char slash = 0;
  LayoutParam param;
  while (in >> param.numel >> slash >> param.unit) {
    param.group = 0;
    if (in.peek() == '/') in >> slash >> param.group;
    params.push_back(param);
  }
  const BucketLayout layout = BucketLayout::build(params, options);
  std::string text = layout.to_string();
  for (int b = 0; b < static_cast<int>(layout.buckets().size()); ++b) {
    for (int rank = 0; rank < options.group_size; ++rank) {
      text += fmt::format("rank {} of bucket {}:", rank, b);
      for (const ShardField& f : layout.fields(b, rank)) {
        text +=
            fmt::format(" {}[{},{})@{}", f.param, f.param_begin, f.param_begin + f.numel, f.offset);
      }
      text += '\n';
    }
  }
  return text;
}

TEST_CASE("buckets follow units, sizes and persistence as the golden file says", "[zero]") {
  testing::run_golden("zero/bucket_layout.txt", answer);
}

TEST_CASE("every element of every parameter is in exactly one rank's slice", "[zero]") {
  const Rng rng(3, "layout");
  for (uint64_t round = 0; round < 80; ++round) {
    const bool whole = round % 2 == 1;
    std::vector<LayoutParam> params;
    for (uint64_t i = 0; i < 12; ++i) {
      params.push_back({.numel = 1 + rng.bits(round * 64 + i) % 900,
                        .unit = static_cast<int>(i / 4),
                        .group = static_cast<int>(i % 3)});
    }
    const int group = 1 + static_cast<int>(round % 5);
    const BucketLayout layout = BucketLayout::build(
        params, {.bucket_numel = 1 + rng.bits(round * 64 + 20) % 2000,
                 .persistence_numel = rng.bits(round * 64 + 21) % 300,
                 .group_size = group,
                 .slicing = whole ? Slicing::kWholeParameters : Slicing::kElements});
    std::vector<std::vector<int>> seen;
    for (const LayoutParam& p : params) seen.emplace_back(static_cast<size_t>(p.numel), 0);
    for (int b = 0; b < static_cast<int>(layout.buckets().size()); ++b) {
      for (int rank = 0; rank < group; ++rank) {
        for (const ShardField& f : layout.fields(b, rank)) {
          REQUIRE(f.offset + f.numel <= layout.slice_numel(b));
          REQUIRE((!whole || f.numel == nth(params, f.param).numel));
          for (int64_t i = 0; i < f.numel; ++i) {
            ++seen[static_cast<size_t>(f.param)][static_cast<size_t>(f.param_begin + i)];
          }
        }
      }
    }
    for (const auto& param : seen) {
      for (const int times : param) REQUIRE(times == 1);
    }
  }
}

}  // namespace
}  // namespace ds
