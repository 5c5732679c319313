// What llm.c saves of a GPT-2 (pure): what the headers of its files say, and where each tensor lies
// among the elements behind them. These go kind by kind, and within one layer by layer; matrices
// are [out, in]. The format is what its functions gpt2_write_to_checkpoint() and save_state()
// write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "core/values/dtype.h"
#include "core/values/shape.h"

namespace ds::llmc {

inline constexpr int64_t kHeaderBytes = 1024;  // 256 int32, little-endian

struct ModelHeader {
  int64_t positions = 0, vocabulary = 0, layers = 0, heads = 0, width = 0;
  int64_t table_rows = 0;  // the vocabulary, padded
  DType dtype = DType::kF32;
};

struct StateHeader {
  int64_t ranks = 1, rank = 0;
  int64_t step = 0;          // updates that were made
  bool has_masters = false;  // fp32 weights, behind the moments
  bool has_order = false;    // of the samples, behind all tensors
};

// Whether a file begins as llm.c's models do, of whatever family.
bool is_model(std::span<const std::byte> bytes);

// `path` is named in messages. DataError for what is no such header, or one of sizes that no model
// has; Unsupported for another family, and for versions whose vocabulary is not padded.
ModelHeader model_header(const std::string& path, std::span<const std::byte> bytes);
StateHeader state_header(const std::string& path, std::span<const std::byte> bytes);

// The place of a tensor's elements among all.
struct Place {
  int64_t begin = 0;
  int64_t size = 0;  // with the padding
  Shape shape;       // as transformers has it: matrices of layers are [in, out]
  bool is_transposed = false;

  // The index among them of an element of that shape, in row-major order.
  int64_t stored_index(int64_t element) const;
};
// All tensors by the names that transformers has.
std::map<std::string, Place> places_of(const ModelHeader& header);
// Whether the bytes from `at` on are the order of samples that a state may end with: how many files
// of tokens there are and their order, how many samples the present one has and theirs, and the
// generator (its struct mt19937_state).
bool is_order(std::span<const std::byte> bytes, int64_t at);
int64_t element_count(const ModelHeader& header);

}  // namespace ds::llmc
