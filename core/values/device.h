// A Device is where a tensor lives. Meta tensors have a shape and a dtype but no bytes: kernels on
// them check and report their cost, which is how the dry run plans memory and communication.
#pragma once

#include <cstdint>
#include <string>

namespace ds {

struct Device {
  enum class Kind : uint8_t { kCpu, kCuda, kMeta };
  Kind kind = Kind::kCpu;
  int index = 0;

  static Device cpu() { return {Kind::kCpu, 0}; }
  static Device meta() { return {Kind::kMeta, 0}; }
  static Device cuda(int index) { return {Kind::kCuda, index}; }
  bool is_meta() const { return kind == Kind::kMeta; }
  bool operator==(const Device&) const = default;
  std::string to_string() const;  // "cpu", "cuda:1", "meta"
};

}  // namespace ds
