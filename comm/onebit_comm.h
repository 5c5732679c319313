// OneBitComm: averages over a group in one bit per number (Tang et al., arXiv 2102.02888), beside
// what its communicator can: of any transport, and of a traced one, so that what it sends is
// counted as everything else is. What compression loses, a rank remembers and adds the next time:
// of its own numbers (worker), and of the average that it makes for all (server).
//
//   c = values + worker; all ranks get sign(c) of their part, and every scale |c| / sqrt(n);
//   each averages its part: a = mean(scale sign) + server; all get scale sign(a) of each part.
//
// On the wire a rank has (n-1)/n of what each call is of: 2 n/8 bytes of signs and 4 bytes per
// tensor and rank of scales, twice. Bits and sums are in rank order: every rank has the same.
#pragma once

#include <span>
#include <vector>

#include "comm/contract/communicator.h"

namespace ds {

// Numbers that have one scale on their way to the servers, and one in each of these.
struct OneBitTensor {
  struct Part {
    Tensor values;       // fp32: averaged in place
    int64_t offset = 0;  // in the errors, a multiple of 8
  };
  std::vector<Part> parts;  // ascending, apart from each other
  Tensor worker;            // fp32 [kernels::onebit_padded_numel()]
  Tensor server;            // fp32 [of that, this rank's share]
};

class OneBitComm {
 public:
  explicit OneBitComm(Communicator& inner) : inner_(inner) {}  // which must outlive it

  // All tensors in four calls of the communicator; of a rank alone nothing changes. Collective:
  // the same sizes on every rank. InternalError where errors do not fit.
  void average(std::span<const OneBitTensor> tensors, Stream& stream);

 private:
  struct Buffers;
  void compress(std::span<const OneBitTensor> tensors, Buffers& buffers, Stream& stream) const;
  void serve(std::span<const OneBitTensor> tensors, Buffers& buffers, Stream& stream) const;
  void expand(std::span<const OneBitTensor> tensors, const Buffers& buffers, Stream& stream) const;

  Communicator& inner_;
};

}  // namespace ds
