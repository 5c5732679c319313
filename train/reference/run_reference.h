// The reference of a run that learns from pairs of texts: who it is, which samples it is asked
// about, and what is done that a restart finds its answers again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "train/engine.h"
#include "train/reference/reference_file.h"
#include "train/reference/reference_pass.h"

namespace ds {

// A reference's weights go where the model's are. ConfigError for a folder of another model.
void require_same_kind(const ModelConfig& model, FileSystem& files, const std::string& reference);

// Samples of the steps [begin, end), each once, in their order; all of them if the steps are more
// than an epoch.
std::vector<int64_t> samples_of_steps(const Sampler& sampler, int64_t global_batch, int64_t begin,
                                      int64_t end, int64_t samples);

// One of the run's sets of samples, and which of it the run needs.
struct ReferenceSet {
  const SampleSet* samples = nullptr;  // null: there is none
  std::vector<int64_t> wanted{};
};

struct RunReference {
  std::string path{};                   // of the file, which rank 0 reads and writes
  std::string facts{};                  // rank 0's: see write_references()
  std::optional<std::string> model{};   // the folder with which the run begins
  std::optional<std::string> folder{};  // the reference's own; nothing: it is that model
  SamplePlace place{};
  ReferenceSet train{}, validation{};
  std::function<void(int64_t done, int64_t of)> on_batch = [](int64_t, int64_t) {};
};

enum class WeightsAfter : uint8_t {
  kSame,   // the engine has what it had
  kOther,  // it has the reference's: the run's own are to be loaded again
};
struct FilledReferences {
  WeightsAfter weights = WeightsAfter::kSame;
  std::vector<std::string> notices{};  // for the user
};
// Collective, when the engine has the weights of step `step`: fills what the run needs, from its
// file where it goes on, or by a pass of the reference. ValidationError on all ranks alike for a
// folder of another model, else as weights are loaded and score_references() throws.
FilledReferences fill_references(Engine& engine, FileSystem& files, const RunReference& run,
                                 int64_t step, RunReferences& references);

}  // namespace ds
