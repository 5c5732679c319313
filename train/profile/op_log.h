// OpLog: the operations of a stream while somebody wants them, each with its cost, what it is for,
// and when it begins. Otherwise it costs a look at a flag.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/stream_moment.h"
#include "core/trace.h"

namespace ds {

struct LoggedOp {
  std::string label;  // the stream's: "transformer.h.3.attn.c_attn"
  std::string name;   // "matmul"
  OpCost cost{};
  StreamMoment begin;  // it ends where the next one begins
};

class OpLog final : public Trace {
 public:
  // The stream that reports to it; it outlives the last operation that is kept.
  void follow(Stream& stream) { stream_ = &stream; }
  void turn(bool on) { is_on_ = on && stream_ != nullptr; }
  void on_op(std::string_view name, const OpCost& cost) override {
    if (!is_on_) return;
    ops_.push_back(
        {std::string(stream_->label()), std::string(name), cost, StreamMoment::of(*stream_)});
  }
  std::vector<LoggedOp> take() { return std::exchange(ops_, {}); }

 private:
  Stream* stream_ = nullptr;
  bool is_on_ = false;
  std::vector<LoggedOp> ops_;
};

}  // namespace ds
