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
};

}  // namespace ds
