// OpLog: the operations of a stream for those who want them just then, each with its cost, what it
// is for, and when it begins. While nobody does it costs a look at an empty list.
#pragma once

#include <string>
#include <vector>

#include "core/device/stream_moment.h"
#include "core/device/trace.h"

namespace ds {

struct LoggedOp {
  std::string label;  // the stream's: "transformer.h.3.attn.c_attn"
  std::string name;   // "matmul"
  OpCost cost{};
  StreamMoment begin;  // it ends where the next one begins
};

class OpLog final : public Trace {
 public:
  using Ops = std::vector<LoggedOp>;

  // The stream that reports to it; it outlives the last operation that is kept.
  void follow(Stream& stream) { stream_ = &stream; }
  // From now on operations are put there, too, until remove().
  void add(Ops& into) {
    if (stream_ != nullptr) wanted_.push_back(&into);
  }
  void remove(const Ops& into) { std::erase(wanted_, &into); }
  void on_op(std::string_view name, const OpCost& cost) override {
    if (wanted_.empty()) return;
    const StreamMoment begin = StreamMoment::of(*stream_);
    for (Ops* const ops : wanted_) {
      ops->push_back({std::string(stream_->label()), std::string(name), cost, begin});
    }
  }

 private:
  Stream* stream_ = nullptr;
  std::vector<Ops*> wanted_;
};

}  // namespace ds
