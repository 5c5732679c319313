// The order of experts on the CPU: threads count and place chunks of choices, whose length does not
// depend on how many threads there are.
#include "kernels/moe/expert_order_cpu.h"

#include <algorithm>
#include <vector>

#include "core/tasks/thread_pool.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kChunk = 4096;

int64_t chunks_of(const ChoiceWalk& walk) { return (walk.length() + kChunk - 1) / kChunk; }

int32_t expert_of(const ChoiceWalk& walk, const int32_t* experts, int64_t choice) {
  const int32_t expert = experts[choice];
  DS_CHECK(expert >= -1 && expert < walk.experts,
           "sort_by_expert: choice {} is expert {}, expected -1 to {}", choice, expert,
           walk.experts - 1);
  return expert;
}

// [chunks, experts]: how many choices of each chunk fall on each expert.
std::vector<int32_t> counts_of_chunks(const Stream& stream, const ChoiceWalk& walk,
                                      const int32_t* experts) {
  std::vector<int32_t> counts(to_size(chunks_of(walk) * walk.experts), 0);
  stream.pool().parallel_for(chunks_of(walk), 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      int32_t* const of_chunk = counts.data() + chunk * walk.experts;
      const int64_t past = std::min(walk.length(), (chunk + 1) * kChunk);
      for (int64_t step = chunk * kChunk; step < past; ++step) {
        const int32_t expert = expert_of(walk, experts, walk.choice_at(step));
        if (expert >= 0) ++of_chunk[expert];
      }
    }
  });
  return counts;
}

// Each count becomes where its chunk's first choice of the expert goes.
void place_chunks(const ChoiceWalk& walk, std::vector<int32_t>& chunks, int32_t* counts,
                  int32_t* offsets) {
  int32_t next = 0;
  for (int64_t e = 0; e < walk.experts; ++e) {
    offsets[e] = next;
    for (int64_t chunk = 0; chunk < chunks_of(walk); ++chunk) {
      int32_t& of_chunk = chunks[to_size(chunk * walk.experts + e)];
      const int32_t count = of_chunk;
      of_chunk = next;
      next += count;
    }
    counts[e] = next - offsets[e];
  }
  offsets[walk.experts] = next;
}

}  // namespace

void sort_by_expert_cpu(Stream& stream, const ChoiceWalk& walk, const Tensor& experts,
                        const ExpertOrder& to) {
  const auto* const chosen = experts.data<int32_t>();
  std::vector<int32_t> next = counts_of_chunks(stream, walk, chosen);
  auto* const offsets = to.offsets.data<int32_t>();
  place_chunks(walk, next, to.counts.data<int32_t>(), offsets);
  auto* const order = to.order.data<int32_t>();
  auto* const place = to.place.data<int32_t>();
  stream.pool().parallel_for(chunks_of(walk), 1, [&](int64_t begin, int64_t end) {
    for (int64_t step = begin * kChunk; step < std::min(walk.length(), end * kChunk); ++step) {
      const int64_t choice = walk.choice_at(step);
      const int32_t expert = chosen[choice];
      place[choice] = -1;
      if (expert < 0) continue;
      int32_t& to_place = next[to_size(step / kChunk * walk.experts + expert)];
      order[to_place] = static_cast<int32_t>(choice);
      place[choice] = to_place++;
    }
  });
  std::fill(order + offsets[walk.experts], order + walk.length(), -1);
}

void count_choices_cpu(Stream& stream, const ChoiceWalk& walk, const Tensor& experts,
                       Tensor& counts) {
  const std::vector<int32_t> chunks = counts_of_chunks(stream, walk, experts.data<int32_t>());
  auto* const totals = counts.data<int32_t>();
  std::fill_n(totals, walk.experts, 0);
  for (size_t i = 0; i < chunks.size(); ++i) totals[i % to_size(walk.experts)] += chunks[i];
}

}  // namespace ds::kernels::detail
