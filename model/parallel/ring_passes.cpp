#include "model/parallel/ring_passes.h"

#include <utility>

#include "core/failpoint.h"
#include "kernels/elementwise.h"

namespace ds {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;
using kernels::SequencePart;

struct Ring {
  Stream& stream;
  Communicator& group;

  int size() const { return group.size(); }
  // Whose keys and values are here after so many passes.
  int owner(int passes) const { return (group.rank() + size() - passes) % size(); }
  void send(const Tensor& tensor) { group.send(tensor, (group.rank() + 1) % size(), stream); }
  Tensor receive(const Shape& shape, DType dtype) {
    Tensor tensor = Tensor::empty(shape, dtype, stream);
    group.recv(tensor, (group.rank() + size() - 1) % size(), stream);
    return tensor;
  }
  // Takes the next keys, but for one's own, and sends them on, but for those of the last pass.
  void pass(int passes, Tensor& keys) {
    if (passes > 0) keys = receive(keys.shape(), keys.dtype());
    if (passes + 1 < size()) send(keys);
    DS_FAILPOINT("ring.keys_passed");
  }
};

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

void pass_keys(Stream& stream, Communicator& group, Tensor keys, const AttendKeys& attend) {
  Ring ring{stream, group};
  for (int passes = 0; passes < ring.size(); ++passes) {
    ring.pass(passes, keys);
    attend(ring.owner(passes), keys);
  }
}

Tensor pass_gradients(Stream& stream, Communicator& group, Tensor keys,
                      const AttendGradients& attend) {
  Ring ring{stream, group};
  const Shape shape = keys.shape();
  Tensor own = Tensor::zeros(shape, DType::kF32, stream);
  for (int passes = 0; passes < ring.size(); ++passes) {
    ring.pass(passes, keys);
    Tensor passing = passes == 0   ? own
                     : passes == 1 ? Tensor::zeros(shape, DType::kF32, stream)
                                   : ring.receive(shape, DType::kF32);
    attend(ring.owner(passes), keys, passing);
    if (passes > 0) ring.send(passing);
    DS_FAILPOINT("ring.gradients_passed");
  }
  const Tensor of_others = ring.receive(shape, DType::kF32);
  kernels::accumulate(stream, of_others, own);
  return own;
}

}  // namespace ds
