// How keys and values go round a ring of ranks (Liu et al., arXiv 2310.01889), and their gradients
// after them: messages alone. What a rank makes of what is here is told by the caller, and which
// queries see which keys is pure.
#pragma once

#include <functional>
#include <vector>

#include "comm/contract/communicator.h"
#include "kernels/attention/attention_part.h"

namespace ds {

struct RingRank {
  int rank = 0;
  int ranks = 1;
};

// What queries of a rank see of the keys of rank `owner`, if each has a piece from the front and
// one from the back of every sequence (sequence_rows.h), in the order in which it is computed.
// Causal attention sees everything of a piece from before its own and nothing of one from behind,
// which is one part; with another mask a part is what a piece sees of another, if anything. The
// shape of `here` is what each rank has, with all heads of it; its mask is that of whole sequences.
std::vector<kernels::AttentionPart> zigzag_parts(const kernels::AttentionSpec& here,
                                                 const RingRank& at, int owner);
// Whether the part is the first one of its queries: that of their own keys.
bool is_first(const kernels::AttentionPart& part);

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
