// What the closures of a tape need again of the forward pass, and where it waits meanwhile: where
// it was made, or on another tier. The closure cannot tell. A tape says when a tensor may leave and
// when it is needed soon, in an order that follows from the model alone, so that a dry run on meta
// allocates the same.
#pragma once

#include <memory>

#include "core/device/tensor.h"

namespace ds {

class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  // The forward pass is past the next closure: the tensor may leave its place.
  virtual void leave() {}
  // A closure before the one that takes it is about to run, or that one itself.
  virtual void fetch() {}
  // Once. Computed with on the tape's stream.
  virtual Tensor take() = 0;
};

// Closures are copied, hence shared; null after take().
using Saved = std::shared_ptr<SavedTensor>;
Tensor take(Saved& saved);         // and drops the hold, so that the bytes go after the last use
Saved keep(const Tensor& tensor);  // where it is

class SavePolicy {
 public:
  virtual ~SavePolicy() = default;
  // Saves any tensor, also an undefined one.
  virtual Saved save(const Tensor& tensor) = 0;
};

}  // namespace ds
