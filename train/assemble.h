// From the configuration to plain options: the one place where keys of train.json meet
// constructors.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "core/memory/adaptors.h"
#include "data/sampler.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"
#include "offload/async_io/io_options.h"
#include "offload/swap_format.h"
#include "train/batches/reference_scores.h"
#include "train/batches/sample_rules.h"
#include "train/configured_model.h"
#include "train/engine.h"
#include "train/samples/masking.h"
#include "train/settings/job.h"

namespace ds {

// Everything the engine needs on one of `world_size` ranks. Throws ConfigError for batch sizes that
// do not fit the world, and sequences that cannot be shared out.
EngineOptions engine_options(const Config& config, const ModelConfig& model, int world_size);
// The axes of the world, and which ranks are near each other, where the configuration cuts them.
// ranks_of_host: of this one. ConfigError where that does not divide the world.
MeshSizes job_mesh(const Config& config, int world_size, int ranks_of_host);
BatchShape batch_shape(const Config& config, int world_size);

// Returns how many of a rank's threads work on offloaded optimizer state while the rank computes,
// ahead of an update or after it; 0: the state is updated in turn.
int updater_threads(const Config& config, int threads);

// memory.device_limit and memory.host_limit.
MemoryLimits memory_limits(const Config& config);
// Asynchronous I/O with files in `folder` (nvme_path) as the "aio" section wants it. ConfigError
// naming the key for a block that no disk takes, and for counts that no queue holds.
IoOptions io_options(const AioConfig& aio, const std::string& folder);

// Whose swap files those of the run are. The job is its run directory, which a restart keeps and no
// other run has: "night-2f6c01d3", the directory's name and some digits of its path.
SwapOwner swap_owner(const JobPlan& plan);

// The number type of the weights in final/.
DType final_dtype(const Config& config);

// ConfigError where the file has rules for layers that ranks share, and the model splits these
// otherwise. What there is to note of the others: which are for no layer.
std::vector<std::string> require_partition(const Config& config, const ModelConfig& model);
// data.sequence_length, or the model's longest text. ConfigError where the model has fewer
// positions.
int64_t sequence_length(const DataSection& data, const ModelConfig& model);
// Tokens of the text that train.sample_prompt begins, 0 without one. ConfigError where the model
// has fewer positions.
int64_t sample_length(const TrainSection& train, const ModelConfig& model);

struct TrainingData {
  std::shared_ptr<Tokenizer> tokenizer;  // null where all data are token ids
  SampleSet train;
  std::optional<SampleSet> validation;
  SampleRules rules;
  double validation_bytes_per_token = 0;  // for bits per byte; 0 where the text is not known
  std::shared_ptr<RunReferences> references = nullptr;  // where samples are pairs of texts
};
// What ends documents: what the configuration says, or else the tokenizer's own token after JSON
// lines.
TextOptions text_options(const DataSection& data, const Tokenizer& tokenizer, FileSystem& files);

// Whether documents are told apart, and by which token. ConfigError if no single token ends them.
// `tokenizer`: null where all data are token ids.
DocumentRules document_rules(const DataSection& data, const Tokenizer* tokenizer,
                             const TextOptions& text, int64_t vocabulary);

// Opens what `data` names; ids of large texts are kept in the cache, if there is one. InputMissing,
// DataError as the readers throw them; ConfigError for a tokenizer that is not the model's.
TrainingData open_data(const DataSection& data, const ModelConfig& model, FileSystem& files,
                       TokenCache* cache = nullptr);

// Optimizer steps of the whole run: train.steps, or as many as train.epochs need.
int64_t total_steps(const TrainSection& train, const BatchShape& batch, int64_t samples_per_epoch);
// All of them or, with dataloader_drop_last, those that make whole batches. ConfigError where that
// is none.
int64_t samples_per_epoch(const Config& config, const BatchShape& batch, const SampleSet& samples);
// What is said in epochs, in steps. ConfigError where it does not go with what is said in steps.
void count_epochs(EngineOptions& options, const Config& config, const SampleSet& samples,
                  int world_size);
// In which order samples come: train.seed's or, where data efficiency is on, that of its own seed.
uint64_t sampler_seed(const Config& config);
std::string order_text(const Config& config);  // what makes two orders another, in words

}  // namespace ds
