// What one rendering of a chat template may use: steps, levels and bytes. Hostile templates that
// double texts or never end stop here with an error. Confined to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace ds {

struct RenderLimits {
  int64_t steps = 1'000'000;
  int depth = 64;                   // nested statements, calls of macros, and lists in lists
  size_t bytes = size_t{64} << 20;  // output and values together
};

}  // namespace ds

namespace ds::chat {

// What a template did wrong. The interpreter and the parser add the name and the line.
class Fault : public std::runtime_error {
 public:
  explicit Fault(const std::string& message) : std::runtime_error(message) {}
};

class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;  // values point to it

  void spend(size_t steps);
  // Steps for work that goes over so many bytes.
  void spend_on(size_t bytes) { spend(1 + bytes / kBytesPerStep); }
  void take(size_t bytes);
  void give(size_t bytes) noexcept { bytes_ -= bytes; }
  void check_depth(int depth) const;
  const RenderLimits& limits() const { return limits_; }

 private:
  static constexpr size_t kBytesPerStep = 256;
  RenderLimits limits_;
  int64_t steps_ = 0;
  size_t bytes_ = 0;
};

// Bytes of a budget that a value holds as long as it lives.
class Charge {
 public:
  Charge(Budget* budget, size_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->take(bytes_);
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give(bytes_);
  }
  Charge(const Charge&) = delete;  // the bytes would be given back twice
  void add(size_t bytes) {
    if (budget_ != nullptr) budget_->take(bytes);
    bytes_ += bytes;
  }

 private:
  Budget* budget_;
  size_t bytes_;
};

}  // namespace ds::chat
