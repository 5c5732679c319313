// Named tensors that lie in files of some format, behind an interface: what a reader of weights
// needs of a format that only higher layers know.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "model/hf/safetensors.h"

namespace ds {

// Reading is thread-safe.
class StoredTensors {
 public:
  StoredTensors() = default;
  StoredTensors(const StoredTensors&) = delete;  // infos are referred to
  StoredTensors& operator=(const StoredTensors&) = delete;
  virtual ~StoredTensors() = default;

  virtual std::vector<std::string> names() const = 0;  // sorted
  // DataError for an unknown name. The offset says nothing: a tensor may lie in several pieces.
  virtual const SafetensorsInfo& info(const std::string& name) const = 0;
  // What a reader should know of the files beside their tensors.
  virtual std::vector<std::string> notes() const { return {}; }
  // Part of a tensor, from byte `offset` of its elements in row-major order; whole elements.
  virtual void read_part(const std::string& name, int64_t offset,
                         std::span<std::byte> into) const = 0;
};

}  // namespace ds
