// Saving and loading: the checkpoint section and the two external engines nebula and datastates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class TagValidation : int { kIgnore, kWarn, kFail };
std::span<const EnumName> names_of(TagValidation);
enum class WriterType : int { kMOCK, kPYTHON, kFAST };
std::span<const EnumName> names_of(WriterType);
enum class WriterDataParallel : int { kREPLICA, kSOCKET, kMACHINE };
std::span<const EnumName> names_of(WriterDataParallel);

struct ParallelWriteConfig {
  bool pipeline_stage = false;
};
void fields(Visitor& v, ParallelWriteConfig& c);

struct CheckpointWriterConfig {
  WriterType type = WriterType::kFAST;
  bool decoupled = false;
  int64_t io_buffer_size = 67108864;
  bool io_buffer_double = true;
  int64_t io_multiplier = 1;
  bool show_statistics = false;
  std::optional<WriterDataParallel> data_parallel;
};
void fields(Visitor& v, CheckpointWriterConfig& c);

struct CheckpointConfig {
  TagValidation tag_validation = TagValidation::kWarn;
  bool load_universal = false;
  bool use_node_local_storage = false;
  ParallelWriteConfig parallel_write;
  bool checkpoint_serialization = true;
  std::optional<CheckpointWriterConfig> writer;
  std::optional<bool> exclude_frozen_parameters;
};
void fields(Visitor& v, CheckpointConfig& c);

struct NebulaConfig {
  bool enabled = false;
  std::optional<std::string> persistent_storage_path;
  int64_t persistent_time_interval = 100;
  int64_t num_of_version_in_retention = 2;
  bool enable_nebula_load = true;
  std::optional<std::string> nebula_load_path;
};
void fields(Visitor& v, NebulaConfig& c);

}  // namespace ds
