// What the launcher needs of train.json: checked here, once, before anything starts. The ranks get
// the canonical text and parse nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/elastic_batch.h"
#include "config/sections/near_ranks.h"
#include "config/sections/split/pipeline.h"
#include "launcher/process/machine.h"

namespace ds {

// The corners of the batch triangle as given, and what else a world must satisfy.
struct BatchRequest {
  std::optional<int64_t> train;
  std::optional<int64_t> micro;
  std::optional<int64_t> accumulation;
  int64_t model_ranks = 1;                // ranks that work on one sample together
  std::optional<int64_t> data_ranks;      // of the mesh, where the file names one
  std::optional<ElasticOptions> elastic;  // its rules choose the sizes
  std::optional<NearRanks> near;          // neighbourhoods that divide the ranks
  PipelineSplit pipeline{};               // whose schedule may ask for rounds of micro-batches
};

struct JobConfig {
  std::filesystem::path directory;  // absolute; relative paths in the config start here
  std::string stem;                 // of the file name
  std::string canonical_text;
  std::string digest;  // SHA-256 of the canonical text
  int64_t steps_per_print = 10;
  int64_t log_every = 1;                 // steps between lines of metrics
  std::chrono::minutes shortest_run{0};  // of a world that may grow
  bool keeps_in_memory = false;          // states, beside checkpoints
  bool shares_directory = true;  // hosts write checkpoints into one folder, not each into its own
  ResumeMode resume = ResumeMode::kAuto;
  CommunicationBackend backend = CommunicationBackend::kAuto;
  BatchRequest batch;
  std::vector<std::string> nvme_paths;  // where the state is swapped to, on every host
  std::vector<std::string> notes;       // worth knowing, not wrong
};

// Returns the name of the file that is meant, without its ending; "config" for a text in base64.
std::string config_stem(const std::string& path);

// In which relative paths of the configuration start, absolute. Throws ConfigError for a folder
// whose name ranks could not be told.
std::filesystem::path job_directory(const std::string& path);

// Throws InputMissing, or ConfigError with file:line:column for everything that is wrong.
JobConfig load_job_config(const std::string& path, const std::vector<std::string>& overrides);

// Returns what ranks that generate have in place of a configuration.
JobConfig generation_config(const std::string& order);

// What the configuration asks of the number of ranks.
BatchRequest batch_request(const Config& config);
// A swap path is where weights or state are swapped to, absolute, with the key that says so.
struct SwapPath {
  std::string key;
  std::string path;
};
std::vector<SwapPath> swap_paths(const ZeroConfig& zero);

// The number of ranks where the mesh, or all three batch sizes, are given and leave one choice.
std::optional<int64_t> implied_ranks(const BatchRequest& batch);

// Throws ConfigError if the batch sizes, or neighbourhoods of ranks, do not fit a world of this
// many ranks.
void check_batch_sizes(const BatchRequest& batch, int ranks);

// The smallest world that they fit. Throws the ConfigError of a world of one model where they fit
// none.
int smallest_world(const BatchRequest& batch);

// Whether a world of `ranks` trains with the same global batch as one of `first_ranks`, so that a
// run may move from one to the other.
bool same_batch(const BatchRequest& batch, int first_ranks, int ranks);

// Ranks and threads of a job on this machine, as far as they were asked for: batch sizes that fit
// one world only choose it, as long as there is room for it.
WorldShape local_shape(const JobConfig& config, const Machine& machine, std::optional<int> ranks,
                       std::optional<int> threads);

}  // namespace ds
