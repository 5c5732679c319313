// The audit log of samples: which samples this rank was given at which step, one JSON line per
// micro-step in logs/samples-rank-<r>.jsonl, so that a test can show that every sample was used
// exactly once whatever happened to the world. A step that was redone stands there once per epoch;
// its last epoch counts.
#pragma once

#include "core/files/file.h"
#include "train/settings/observers.h"

namespace ds {

class SampleAudit final : public StepObserver {
 public:
  // Appends to the file. Throws IoError, InputMissing without a folder logs/.
  SampleAudit(const std::string& run_dir, int rank, int64_t epoch);
  void on_samples(int64_t steps_done, int micro_step, std::span<const int64_t> samples) override;

 private:
  const std::string path_;
  const int64_t epoch_;
  Fd fd_;
};

}  // namespace ds
