// Calls that fronts of kernels refuse, each with what its error says.
#pragma once

#include <functional>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels::refusals {

// A call that is right but for one operand.
struct Case {
  const char* message;  // what the error holds
  std::function<void()> call;
};

inline void check_refused(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    CAPTURE(one.message);
    CHECK_THROWS_AS(one.call(), InternalError);
    CHECK_THROWS_WITH(one.call(), Catch::Contains(one.message));
  }
}

// Tensors by shape and dtype, all zeros.
struct Maker {
  reference::TestStream own;
  Stream& stream = own.stream;
  Tensor operator()(const Shape& shape, DType dtype = DType::kF32) {
    return Tensor::zeros(shape, dtype, stream);
  }
};

}  // namespace ds::kernels::refusals
