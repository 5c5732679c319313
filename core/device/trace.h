// What kernels and collectives report about themselves: FLOPs, bytes, names. A Stream carries an
// optional Trace; the dry run, the profiler and the memory plan are implementations of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace ds {

struct OpCost {
  double flops = 0;  // floating-point operations, a multiply-add counts two
  double bytes = 0;  // memory traffic, reads and writes
};

class Trace {
 public:
  virtual ~Trace() = default;
  virtual void on_op(std::string_view name, const OpCost& cost) = 0;
  // A trace with a clock has one per stream: when all work so far would be done, in seconds since
  // the streams began; and that what follows begins no earlier than that.
  virtual double now() const { return 0; }
  virtual void not_before(double /*seconds*/) {}
};

}  // namespace ds
