#include "model/parallel/ring_passes.h"

#include <functional>

#include "core/status/failpoint.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;
using kernels::AttentionSpec;
using kernels::SequencePart;

struct Neighbours {
  const RingPlace& place;

  int size() const { return place.group.size(); }
  // Whose keys and values are here after so many passes.
  int owner(int passes) const { return (place.group.rank() + size() - passes) % size(); }
  // Sends a tensor on, and returns what comes in its place. `meanwhile` may read what is sent.
  Tensor passed_on(const Tensor& out, const std::function<void()>& meanwhile) const;
};

// What the messages read is there, and who had the memory that they write before is through with
// it, when they begin; before any of it is another's again, they are over.
Tensor Neighbours::passed_on(const Tensor& out, const std::function<void()>& meanwhile) const {
  const auto& [stream, messages, group] = place;
  Tensor in = Tensor::empty(out.shape(), out.dtype(), stream);
  const bool beside = &messages != &stream;
  if (beside) messages.wait(stream.mark());
  group.exchange({.out = out,
                  .to = (group.rank() + 1) % size(),
                  .in = in,
                  .from = (group.rank() + size() - 1) % size()},
                 messages, meanwhile);
  if (beside) stream.wait(messages.mark());
  return in;
}

// Front pieces are in the order of the ranks, back pieces in the opposite one.
struct Pieces {
  SequencePart both, front, back;
};
Pieces pieces_of(const AttentionShape& here, const RingRank& at) {
  const int64_t count = here.length / 2;
  const int64_t first = at.rank * count, last = (2 * at.ranks - 1 - at.rank) * count;
  return {.both = {.length = here.length, .count = here.length, .position = first},
          .front = {.length = here.length, .count = count, .position = first},
          .back = {.length = here.length, .first = count, .count = count, .position = last}};
}

// The rows of both pieces are in the order of their positions, which is all that a causal mask
// asks.
AttentionPart causal_part(const AttentionSpec& here, const RingRank& at, int owner) {
  const Pieces queries = pieces_of(here.shape, at);
  const Pieces keys = pieces_of(here.shape, {owner, at.ranks});
  AttentionPart part = owner < at.rank   ? part_of(here, queries.both, keys.front)
                       : owner > at.rank ? part_of(here, queries.back, keys.both)
                                         : part_of(here, queries.both, keys.both);
  part.mask = owner == at.rank ? kernels::AttentionMask{} : kernels::full_mask();
  return part;
}

}  // namespace

std::vector<AttentionPart> zigzag_parts(const AttentionSpec& here, const RingRank& at, int owner) {
  if (here.mask.within(at.ranks * here.shape.length).is_causal()) {
    return {causal_part(here, at, owner)};
  }
  const Pieces queries = pieces_of(here.shape, at);
  const Pieces keys = pieces_of(here.shape, {owner, at.ranks});
  AttentionSpec whole = here;
  whole.shape.length *= at.ranks;
  std::vector<AttentionPart> parts{
      part_of(whole, queries.front, keys.front), part_of(whole, queries.back, keys.back),
      part_of(whole, queries.front, keys.back), part_of(whole, queries.back, keys.front)};
  std::erase_if(parts, [](const AttentionPart& part) { return !sees_anything(part); });
  return parts;
}

bool is_first(const AttentionPart& part) { return part.queries.position == part.keys.position; }

void pass_keys(const RingPlace& place, Tensor keys, const AttendKeys& attend) {
  const Neighbours ring{place};
  for (int passes = 0; passes + 1 < ring.size(); ++passes) {
    keys = ring.passed_on(keys, [&] { attend(ring.owner(passes), keys); });
    DS_FAILPOINT("ring.keys_passed");
  }
  attend(ring.owner(ring.size() - 1), keys);
}

Tensor pass_gradients(const RingPlace& place, Tensor keys, const AttendGradients& attend) {
  const Neighbours ring{place};
  const Shape shape = keys.shape();
  Tensor own = Tensor::zeros(shape, DType::kF32, place.stream);
  keys = ring.passed_on(keys, [&] { attend(ring.owner(0), keys, own); });
  Tensor passing = Tensor::zeros(shape, DType::kF32, place.stream);
  for (int passes = 1; passes < ring.size(); ++passes) {
    const auto add = [&] { attend(ring.owner(passes), keys, passing); };
    if (passes + 1 < ring.size()) {
      keys = ring.passed_on(keys, add);
    } else {
      add();
      keys = {};
    }
    passing = ring.passed_on(passing, [] {});
    DS_FAILPOINT("ring.gradients_passed");
  }
  kernels::accumulate(place.stream, passing, own);
  return own;
}

}  // namespace ds
