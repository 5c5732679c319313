// How keys and values go round a ring of ranks (Liu et al., arXiv 2310.01889), and their gradients
// after them: messages alone. What a rank makes of what is here is told by the caller, and which
// queries see which keys is pure.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "kernels/attention_part.h"

namespace ds {

// What queries of rank `rank` see of the keys of rank `owner`, where each has a piece from the
// front and one from the back of every sequence (sequence_rows.h): everything of a piece from
// before them, nothing of one from behind. `here`: what each rank has, with all heads of it.
kernels::AttentionPart zigzag_part(const kernels::AttentionShape& here, int rank, int owner);

// This says where one rank computes, and where its messages travel: on a device they have a stream
// of their own if they may overlap, or both are the same. Memory is that of the stream that
// computes.
struct RingPlace {
  Stream& stream;
  Stream& messages;
  Communicator& group;
};

// Called with each rank's keys and values in turn, those that are here first; on all ranks of the
// group as often. They are sent on before, so messages travel while the caller computes.
using AttendKeys = std::function<void(int owner, const Tensor& keys)>;
void pass_keys(const RingPlace& place, Tensor keys, const AttendKeys& attend);

// The same for the backward pass: `gradient`, fp32 and shaped as `keys`, is what the ranks before
// have added up for that owner, and gets this rank's part. It follows the keys one rank behind: who
// has added its part sends it on, and the last sends it home. Returns what all made for `keys`.
using AttendGradients = std::function<void(int owner, const Tensor& keys, Tensor& gradient)>;
Tensor pass_gradients(const RingPlace& place, Tensor keys, const AttendGradients& attend);

}  // namespace ds
