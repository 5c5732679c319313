#include "model/parallel/ring_passes.h"

#include <functional>

#include "core/failpoint.h"
#include "kernels/elementwise.h"

namespace ds {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;
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

}  // namespace

// Front pieces are in the order of the ranks, back pieces in the opposite one.
AttentionPart zigzag_part(const AttentionShape& here, int rank, int owner) {
  const int64_t piece = here.length / 2;
  const SequencePart both{.length = here.length, .first = 0, .count = here.length};
  const SequencePart front{.length = here.length, .first = 0, .count = piece};
  const SequencePart back{.length = here.length, .first = piece, .count = piece};
  AttentionPart part{.batch = here.batch,
                     .heads = here.heads,
                     .kv_heads = here.kv_heads,
                     .head_dim = here.head_dim,
                     .queries = both,
                     .keys = both};
  if (owner == rank) {
    part.seen = kernels::Seen::kUpToOwn;
  } else if (owner < rank) {
    part.keys = front;
  } else {
    part.queries = back;
  }
  return part;
}

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
