// What a configuration says about the ranks of a world: the elasticity section as the plain options
// of the elastic-batch rules (config/elastic_batch.h), and how many ranks share a sample.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "config/elastic_batch.h"
#include "config/sections/elasticity.h"
#include "config/sections/sequence_split.h"
#include "config/sections/split/pipeline.h"
#include "config/sections/split/tensor.h"

namespace ds {

ElasticOptions elastic_options(const ElasticityConfig& config);

struct Config;
// Ranks that share each layer, and those that share each sequence.
int64_t tensor_ranks(const Config& config);
// The key that says how many: of the two the one that was given.
// Whether checkpoints are without what is frozen.
bool excludes_frozen(const Config& config);
std::string_view tensor_key(const Config& config);
int64_t sequence_ranks(const Config& config);
SequenceSharing sequence_sharing(const Config& config);
TensorSplit tensor_split(const Config& config);
// Ranks that work on one sample together.
int64_t model_ranks(const Config& config);
// data_parallel_size, where it is read: together with sequence_parallel_size.
std::optional<int64_t> mesh_data_size(const Config& config);
// Returns how many ranks of a world see different samples. Throws ConfigError if the world cannot
// be divided into them, or the mesh of the configuration has another number.
int64_t data_ranks(const Config& config, int64_t world);
// The batch triangle of a configuration for a data-parallel size, by the elastic rules where they
// are switched on. Throws ConfigError, ElasticError.
BatchSizes batch_sizes(const Config& config, int64_t data_parallel_size);

}  // namespace ds
