// State of a group of parameters that is no number per weight: what its optimizer keeps beside the
// slots, and ZenFlow beside those.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "optim/optimizer.h"

namespace ds {

// This says what a visit is for. If several ranks hold the same slices, only the one whose
// coordinate is 0 along every axis that repeats them saves them and counts them in the norm. All of
// them are restored.
enum class Visit : uint8_t { kSave, kRestore };

// An AuxiliaryPart is what this rank saves and restores of one piece of such state.
struct AuxiliaryPart {
  const AuxiliarySpec& spec;
  Tensor values;    // fp32, or codes of 8 bits
  int rank, ranks;  // of those that have one each
  Stream& stream;
  bool lost = false;  // the visitor says so where it found none to restore
};

// As of an optimizer that has made no step.
void begin_anew(AuxiliaryPart& part);

class AuxiliaryState {
 public:
  AuxiliaryState() = default;  // nothing is kept
  // Made on the stream, as the specs begin; rank: of `ranks` that have one each.
  AuxiliaryState(std::vector<AuxiliarySpec> specs, int rank, int ranks, Stream& stream);

  std::span<const Tensor> values() const { return values_; }  // one for each of the specs
  // In the same order every time. saves_shared: this rank shows at kSave those that all have alike.
  void visit(Visit what, bool saves_shared, const std::function<void(AuxiliaryPart&)>& visitor);
  // Copies slots, which are whole by now, into the lost values that begin as a slot.
  void begin_lost(std::span<const Shard> shards);

 private:
  std::vector<AuxiliarySpec> specs_;
  std::vector<Tensor> values_;
  std::vector<size_t> lost_;
  int rank_ = 0, ranks_ = 1;
  Stream* stream_ = nullptr;
};

}  // namespace ds
