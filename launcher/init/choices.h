// What a first train.json is made of, all of it decided.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// What `rankd --facts-of` says of a model folder or a tokenizer. Throws DataError for what no rankd
// prints.
struct InputFacts {
  std::optional<int64_t> positions{};   // of the model: its longest sequence
  std::optional<int64_t> vocabulary{};  // of the model
  std::optional<int64_t> tokenizer{};   // ids
};
InputFacts parse_input_facts(const std::string& json);

// A model made from nothing, by its size.
struct ModelSize {
  std::string_view name;
  int64_t layers;
  int64_t heads;
  int64_t width;
  int64_t inner;
  double learning_rate;
};
const ModelSize* find_model_size(std::string_view name);  // null: it is a folder
std::vector<std::string> model_size_names();

struct TrainingChoices {
  std::vector<std::string> data;
  std::string model;         // a size, or a folder
  std::string tokenizer;     // "byte", a file or a folder
  int64_t vocabulary = 256;  // ids of the tokenizer
  int64_t sequence_length = 0;
  int64_t batch = 0;  // global
  bool bf16 = false;
  int64_t zero_stage = 0;
  int64_t steps = 0;
  std::string format{};  // of examples that a folder learns from: "chat"; empty: text
  bool lora = false;     // by adapters
  std::optional<int64_t> data_bytes{};  // where all of it are plain files
};

}  // namespace ds
