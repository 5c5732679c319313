// SliceReduction: how a rank gets its slice of the sum of a bucket over ranks.
#pragma once

#include "comm/contract/communicator.h"
#include "zero/peers/store_streams.h"

namespace ds {

class SliceReduction {
 public:
  virtual ~SliceReduction() = default;
  // slice = this rank's slice of the sum of `full`; given to the stream of the peers. It may lie in
  // `full`, which is left undefined elsewhere.
  virtual void reduce_scatter(int bucket, const Tensor& full, const Tensor& slice) = 0;
};

// Numbers travel as they are.
class PlainReduction final : public SliceReduction {
 public:
  // The communicator and the streams must outlive it.
  PlainReduction(Communicator& comm, StoreStreams streams) : comm_(comm), streams_(streams) {}

  void reduce_scatter(int /*bucket*/, const Tensor& full, const Tensor& slice) override {
    const auto sum = [&comm = comm_](Stream& on, const Tensor& all, Tensor& own) {
      comm.reduce_scatter(all, own, ReduceOp::kSum, on);
    };
    give(streams_, sum, full, slice);
  }

 private:
  Communicator& comm_;
  const StoreStreams streams_;
};

}  // namespace ds
