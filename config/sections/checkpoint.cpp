#include "config/sections/checkpoint.h"

namespace ds {

std::span<const EnumName> names_of(TagValidation) {
  static constexpr EnumName kNames[] = {
      {"Ignore", static_cast<int>(TagValidation::kIgnore)},
      {"Warn", static_cast<int>(TagValidation::kWarn)},
      {"Fail", static_cast<int>(TagValidation::kFail)},
  };
  return kNames;
}

std::span<const EnumName> names_of(WriterType) {
  static constexpr EnumName kNames[] = {
      {"MOCK", static_cast<int>(WriterType::kMOCK)},
      {"PYTHON", static_cast<int>(WriterType::kPYTHON)},
      {"FAST", static_cast<int>(WriterType::kFAST)},
  };
  return kNames;
}

std::span<const EnumName> names_of(WriterDataParallel) {
  static constexpr EnumName kNames[] = {
      {"REPLICA", static_cast<int>(WriterDataParallel::kREPLICA)},
      {"SOCKET", static_cast<int>(WriterDataParallel::kSOCKET)},
      {"MACHINE", static_cast<int>(WriterDataParallel::kMACHINE)},
  };
  return kNames;
}

void fields(Visitor& v, ParallelWriteConfig& c) {
  v.field("pipeline_stage", c.pipeline_stage,
          {.meaning = "Spread the writing of pipeline stages over data-parallel ranks.",
           .effect = Effect::kAlwaysSo,
           .here = "every rank writes its own part",
           .refuse_text = true,
           .deepspeed_refuses = true});
}

void fields(Visitor& v, CheckpointWriterConfig& c) {
  v.field("type", c.type,
          {.meaning = "Writer kind (case-insensitive).",
           .letter_case = LetterCase::kIgnored,
           .deepspeed_refuses = true});
  v.field("decoupled", c.decoupled, {.meaning = "Write in a separate process."});
  v.field("io_buffer_size", c.io_buffer_size, {.meaning = "Staging buffer in bytes.", .above = 0});
  v.field("io_buffer_double", c.io_buffer_double, {.meaning = "Double buffering."});
  v.field("io_multiplier", c.io_multiplier, {.meaning = "Files per writer.", .min = 1});
  v.field("show_statistics", c.show_statistics, {.meaning = "Report I/O statistics."});
  v.field("data_parallel", c.data_parallel,
          {.meaning = "Which ranks write replicated state.",
           .letter_case = LetterCase::kIgnored,
           .deepspeed_refuses = true});
}

void fields(Visitor& v, CheckpointConfig& c) {
  v.field("tag_validation", c.tag_validation,
          {.meaning = "What to do when ranks pass different checkpoint tags.",
           .effect = Effect::kUsed,
           .letter_case = LetterCase::kIgnored,
           .deepspeed_refuses = true});
  v.field("load_universal", c.load_universal,
          {.meaning = "Load from the universal checkpoint format.",
           .effect = Effect::kAlwaysSo,
           .here = "every checkpoint can be loaded by any number of ranks"});
  v.field(
      "use_node_local_storage", c.use_node_local_storage,
      {.meaning = "Every node writes what its ranks need, so no shared file system is necessary.",
       .effect = Effect::kUsed});
  v.section("parallel_write", c.parallel_write, {.meaning = "Parallel checkpoint writing."});
  v.field("checkpoint_serialization", c.checkpoint_serialization,
          {.meaning = "Serialise through the framework's format.",
           .effect = Effect::kAlwaysSo,
           .here = "checkpoints have one format"});
  v.section("writer", c.writer, {.meaning = "Fast checkpoint writer.", .effect = Effect::kNotYet});
  v.field("exclude_frozen_parameters", c.exclude_frozen_parameters,
          {.meaning = "With lora: whether checkpoints have what trains alone. The model's own "
                      "weights are then read from model.folder whenever a checkpoint is loaded, "
                      "which has to be there and as it was.",
           .effect = Effect::kUsed,
           .unset_meaning = "true with lora and model.folder"});
}

void fields(Visitor& v, NebulaConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Asynchronous checkpoint service: switch."});
  v.field("persistent_storage_path", c.persistent_storage_path,
          {.meaning = "Asynchronous checkpoint service: target directory."});
  v.field("persistent_time_interval", c.persistent_time_interval,
          {.meaning = "Asynchronous checkpoint service: interval of persisting.", .min = 0});
  v.field("num_of_version_in_retention", c.num_of_version_in_retention,
          {.meaning = "Asynchronous checkpoint service: versions kept.", .min = 0});
  v.field("enable_nebula_load", c.enable_nebula_load,
          {.meaning = "Asynchronous checkpoint service: load through the service."});
  v.field("nebula_load_path", c.nebula_load_path,
          {.meaning = "Asynchronous checkpoint service: directory to load from."});
}

}  // namespace ds
