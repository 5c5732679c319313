// Parts of attention that ranks of a ring make: together they are the whole, each pair once.
#include <map>

#include "kernels/attention/attention_operands.h"
#include "model/parallel/ring_passes.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

using kernels::AttentionMask;
using kernels::AttentionPart;
using kernels::SequencePart;

// The position of a rank's row, as zigzag pieces have it.
int64_t position_of(int64_t row, int64_t length, int rank, int ranks) {
  const int64_t piece = length / 2;
  return row < piece ? rank * piece + row : (2 * ranks - 1 - rank) * piece + row - piece;
}

// Documents of three tokens, on the host.
AttentionMask in_documents(AttentionMask mask, int64_t length, Stream& stream) {
  mask.ranges = Tensor::empty({1, length, 2}, DType::kI32, stream);
  for (int64_t t = 0; t < length; ++t) {
    mask.ranges.data<int32_t>()[2 * t] = static_cast<int32_t>(t / 3 * 3);
    mask.ranges.data<int32_t>()[2 * t + 1] = static_cast<int32_t>(std::min(length, t / 3 * 3 + 3));
  }
  return mask;
}

}  // namespace

TEST_CASE("ranks of a ring see each pair once, and their own keys first", "[model]") {
  testing::CpuStream cpu;
  const std::vector<AttentionMask> masks{{},
                                         kernels::window_mask(1),
                                         kernels::window_mask(3),
                                         kernels::window_mask(9),
                                         kernels::full_mask(),
                                         {.left = 2, .right = 5}};
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t length : {2, 6}) {
      for (size_t m = 0; m < 2 * masks.size(); ++m) {
        CAPTURE(ranks, length, m);
        const bool has_documents = m >= masks.size();
        AttentionMask mask = masks[m % masks.size()];
        if (has_documents) mask = in_documents(mask, ranks * length, cpu.stream);
        const kernels::AttentionSpec here{.shape = {1, length, 1, 1, 4}, .mask = mask};
        std::map<std::pair<int64_t, int64_t>, int> seen;  // by positions
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<bool> written(static_cast<size_t>(length), false);
          for (int passes = 0; passes < ranks; ++passes) {
            const int owner = (rank + ranks - passes) % ranks;
            for (const AttentionPart& part : zigzag_parts(here, {rank, ranks}, owner)) {
              const kernels::detail::SeenKeys keys = kernels::detail::seen_keys(part);
              for (int64_t i = 0; i < part.queries.count; ++i) {
                const int64_t row = part.queries.first + i;
                CHECK(written[static_cast<size_t>(row)] != is_first(part));
                written[static_cast<size_t>(row)] = true;
                const uint64_t bits = keys.tile<int64_t>(0, 0, i, 0, part.keys.count);
                for (int64_t j = 0; j < part.keys.count; ++j) {
                  if ((bits >> j & 1U) == 0) continue;
                  ++seen[{position_of(row, length, rank, ranks),
                          position_of(part.keys.first + j, length, owner, ranks)}];
                }
              }
            }
          }
        }
        int64_t pairs = 0;
        for (int64_t query = 0; query < ranks * length; ++query) {
          for (int64_t key = 0; key < ranks * length; ++key) {
            if (query - key > mask.left || key - query > mask.right) continue;
            if (has_documents && query / 3 != key / 3) continue;
            ++pairs;
            CHECK(seen[{query, key}] == 1);
          }
        }
        CHECK(static_cast<int64_t>(seen.size()) == pairs);
      }
    }
  }
}

}  // namespace ds
