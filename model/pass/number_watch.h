// Who looks at the numbers of a pass while they are made: weights as they are leased, what
// functions give, gradients of inputs and of parameters. One of a step that is made once more to
// find the first number that is not finite; others have none, which costs them a null pointer.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/device/tensor.h"

namespace ds {

enum class NumberKind : uint8_t { kWeight, kOutput, kInputGradient, kParameterGradient };

class NumberWatch {
 public:
  virtual ~NumberWatch() = default;
  // `place`: the stream's label where it was made, the path of a module. `name`: of the function
  // that gives it or gets it as an input, or of the parameter. What it is asked in a pass, and in
  // which order, follows from the model alone, so that it is the same on all ranks.
  virtual void look(NumberKind kind, std::string_view place, std::string_view name,
                    const Tensor& numbers) = 0;
};

}  // namespace ds
