// What a checkpoint says of the run that made it, and whether a run may go on from it (pure). A
// model of another shape never may. What changes which samples come next, or what a step computes
// from them, breaks the promise that training goes on as if it had never stopped: that has to be
// asked for. The rest is named.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "data/tokens/dataset.h"
#include "model/pass/param.h"

namespace ds {

inline constexpr const char* kFactsState = "run";  // of rank 0's file

struct RunFacts {
  std::string model;   // config.json of the model, as Hugging Face has it
  std::string config;  // canonical train.json
  std::string data;    // digest of the training samples
  int64_t seed = 0;
  int64_t global_batch = 0;
  int64_t sequence_length = 0;
  std::string order;      // of the samples
  std::string teacher{};  // fingerprint of its weights; empty: there is none
  std::string base{};     // the same of the folder that adapters are beside; empty: there are none
  int64_t saved_at = 0;   // seconds since 1970
};
std::string to_text(const RunFacts& facts);
// ValidationError for what is none.
RunFacts parse_facts(const std::string& text);

struct FactChanges {
  std::vector<std::string> model;  // makes it another model
  std::vector<std::string> exact;  // training would not go on as if it had never stopped
  std::vector<std::string> other;  // keys of the configuration that differ besides
};
FactChanges compare(const RunFacts& saved, const RunFacts& now);
// Adds what differs between two models, each as its config.json.
void compare_models(const std::string& before, const std::string& now, FactChanges& out);

// Tensors that a checkpoint has and the model does not, the other way round, and those of another
// shape; empty if there are none. `slots`: the optimizer's, of each parameter. `auxiliary`: what it
// may have besides, in any shape or not at all.
std::vector<std::string> compare_tensors(const CheckpointReader& reader,
                                         const std::vector<ParamSpec>& specs,
                                         const std::vector<std::vector<std::string>>& slots,
                                         const std::vector<std::string>& auxiliary = {});

// Whether the checkpoint has state of an optimizer of the parameter, in one of these slots.
bool has_state(const CheckpointReader& reader, const std::string& parameter,
               const std::set<std::string>& slots);

// Parameters of both that train now and had no state in the checkpoint, and the other way round, in
// words. The arguments are those of compare_tensors().
std::vector<std::string> compare_trained(const CheckpointReader& reader,
                                         const std::vector<ParamSpec>& specs,
                                         const std::vector<std::vector<std::string>>& slots);

// Equal for equal samples in equal number, whatever files they come from. Of large sets many
// samples are looked at, not all.
std::string digest_of(const SampleSet& samples);

}  // namespace ds
