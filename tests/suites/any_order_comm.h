// AnyOrderComm: a group that makes its sums from the last rank to the first, each step rounded to
// the dtype of the result, as libraries for GPUs may: what the suite checks of SumOrder::kAny has
// something to run on. kForgetsLastRank leaves one contribution out, which the suite must find.
#pragma once

#include <memory>

#include "tests/suites/communicator_values.h"

namespace ds::test {

class AnyOrderComm final : public Communicator {
 public:
  enum class Fault { kNone, kForgetsLastRank };
  AnyOrderComm(std::unique_ptr<Communicator> inner, Fault fault)
      : inner_(std::move(inner)), fault_(fault) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  SumOrder sum_order() const override { return SumOrder::kAny; }

  // The inner group's call checks everything and moves what needs no order.
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override {
    const Tensor mine = inout.defined() ? copy_of(inout, stream) : Tensor();
    inner_->all_reduce(inout, op, stream);
    sum_anew(mine, inout, 0, op, stream);
  }
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override {
    const Tensor mine = full.defined() ? copy_of(full, stream) : Tensor();
    inner_->reduce_scatter(full, shard, op, stream);
    sum_anew(mine, shard, rank() * shard.numel(), op, stream);
  }

  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override {
    inner_->all_gather(shard, full, stream);
  }
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override {
    inner_->all_to_all(in, out, stream);
  }
  void broadcast(Tensor& inout, int root, Stream& stream) override {
    inner_->broadcast(inout, root, stream);
  }
  void send(const Tensor& tensor, int to, Stream& stream) override {
    inner_->send(tensor, to, stream);
  }
  void recv(Tensor& tensor, int from, Stream& stream) override {
    inner_->recv(tensor, from, stream);
  }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<AnyOrderComm>(inner_->split(color, key), fault_);
  }
  void abort() noexcept override { inner_->abort(); }
  MemoryResource& memory() override { return inner_->memory(); }

 private:
  static Tensor copy_of(const Tensor& from, Stream& stream) {
    Tensor copy = Tensor::empty({from.numel()}, from.dtype(), stream);
    if (from.numel() > 0) std::memcpy(copy.raw(), from.raw(), from.bytes());
    return copy;
  }

  // `out` becomes elements [begin, ...) of the reduction of everybody's `mine`.
  void sum_anew(const Tensor& mine, Tensor& out, int64_t begin, ReduceOp op, Stream& stream) {
    if (is_whole_number(mine.dtype()) || op == ReduceOp::kMin || op == ReduceOp::kMax) return;
    Tensor all = Tensor::empty({mine.numel() * size()}, mine.dtype(), stream);
    inner_->all_gather(mine, all, stream);
    const int last = fault_ == Fault::kForgetsLastRank && size() > 1 ? size() - 2 : size() - 1;
    with_type(out.dtype(), [&]<class T>() {
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      for (int64_t i = 0; i < out.numel(); ++i) {
        const auto of_rank = [&](int rank) {
          return as_double(all, rank * mine.numel() + begin + i);
        };
        auto sum = static_cast<Wide>(of_rank(last));
        for (int rank = last - 1; rank >= 0; --rank) {
          sum = combine(op, sum, static_cast<Wide>(of_rank(rank)));
          sum = static_cast<Wide>(static_cast<T>(sum));
        }
        if (op == ReduceOp::kAverage) sum /= static_cast<Wide>(size());
        out.data<T>()[i] = static_cast<T>(sum);
      }
    });
  }

  const std::unique_ptr<Communicator> inner_;
  const Fault fault_;
};

}  // namespace ds::test
