// Batch: what the layers of a stage are given of a micro-batch, as tensors with names. A stage says
// which it reads (BatchSpec); a MicroBatch is those tensors, on the host or on the device, in one
// block of bytes if it travels between the two.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device/tensor.h"
#include "kernels/preference/preference.h"
#include "model/parallel/sequence_rows.h"

namespace ds {

enum class RunMode : uint8_t { kTrain, kEval };  // dropout is active in kTrain only

// The names of what language models read. N = samples * length, the rows that are here.
namespace batch_field {
inline constexpr std::string_view kTokens = "tokens";    // int32 [N]
inline constexpr std::string_view kTargets = "targets";  // int32 [N]; negative: no loss
// The same of a head that stands beside that of tokens.
inline constexpr std::string_view kPairTargets = "pair_targets";
// int32 [N], none below 0: where a row stands in its document, if that is not its place in the
// sample.
inline constexpr std::string_view kPositions = "positions";
// int32 [samples, T, 2], of whole samples: the positions [begin, end) of its sample that a row's
// attention sees (kernels/attention/attention_mask.h).
inline constexpr std::string_view kKeyRanges = "key_ranges";
inline constexpr std::string_view kWeights = "weights";  // fp32 [N], none below 0: of losses
// fp32 [samples, scores]: the numbers that the scores of a sample's scored row, which has a target,
// are to be, or from 0 to 1 whether each of several classes holds.
inline constexpr std::string_view kValues = "values";
// int32 [N]: 1 where the target is a token of the first of the sample's two texts, -1 of the second
// one, 0 where there is no target.
inline constexpr std::string_view kSides = "sides";
// The same with kernels::kPromptSide where the target is a token of the prompt of the first text:
// these have targets then, too.
inline constexpr std::string_view kPromptedSides = "prompted_sides";
// fp64 [samples, 2]: log probabilities of the two texts by the model that another is kept near.
inline constexpr std::string_view kReference = "reference";
// int32 [N], none below 0: which of several texts in a sample a token is of.
inline constexpr std::string_view kSegments = "segments";
// int32 [2, N]: kernels::sort_tokens() of tokens, of positions and of segments.
inline constexpr std::string_view kTokenOrder = "token_order";
inline constexpr std::string_view kPositionOrder = "position_order";
inline constexpr std::string_view kSegmentOrder = "segment_order";
// fp64 [1]: the sum of the weights of the targets that are no negative ones.
inline constexpr std::string_view kWeightSum = "weight_sum";
// What layers of your own read (model/layers/pipeline_module.h).
inline constexpr std::string_view kInputs = "inputs";
inline constexpr std::string_view kLabels = "labels";
}  // namespace batch_field

// What samples hold beside tokens and targets.
struct BatchContent {
  bool key_ranges = false;
  bool positions = false;
  bool weights = false;
  // Some targets are negative, as many as it happens, or weights differ: the loss is the mean over
  // what has weight in the global batch.
  bool is_uneven = false;
  // Samples are pairs of texts whose losses are by this rule, and a step's loss is the mean over
  // them.
  std::optional<kernels::PreferenceRule> preference{};
  // Whether layers between the first and the last read of it.
  bool is_for_all_layers() const { return key_ranges || positions; }
};

// The batches that a stage is to say its fields of.
struct BatchExtents {
  int64_t samples = 0;
  int64_t length = 0;        // rows of a sample that are here
  int64_t whole_length = 0;  // of a sample
  BatchContent content{};
  RunMode mode = RunMode::kTrain;
};

struct BatchField {
  // What a source fills, or what fill_derived() makes of that.
  enum class Kind : uint8_t { kGiven, kOrder, kWeightSum };
  std::string name;
  DType dtype = DType::kI32;
  Shape shape{};
  Kind kind = Kind::kGiven;
  std::string from = {};  // another field: of kOrder what is sorted, of kWeightSum the targets
};

class BatchSpec {
 public:
  BatchSpec() = default;
  explicit BatchSpec(std::vector<BatchField> fields) : fields_(std::move(fields)) {}

  const std::vector<BatchField>& fields() const { return fields_; }
  bool has(std::string_view name) const;
  // Adds the fields that `other` has and this has not. InternalError if two of one name differ.
  void add(const BatchSpec& other);
  int64_t bytes() const;  // of a block that holds all fields

 private:
  std::vector<BatchField> fields_;
};

// A handle: copies share the tensors.
class MicroBatch {
 public:
  MicroBatch() = default;
  MicroBatch(std::initializer_list<std::pair<std::string_view, Tensor>> tensors);
  // `block`: uint8, spec.bytes() of them or more, all of which the fields share in their order.
  MicroBatch(const BatchSpec& spec, Tensor block);

  void add(std::string_view name, Tensor tensor) { tensors_.emplace(name, std::move(tensor)); }
  bool has(std::string_view name) const { return tensors_.contains(name); }
  const Tensor& tensor(std::string_view name) const;  // InternalError if it is not there
  Tensor find(std::string_view name) const { return has(name) ? tensor(name) : Tensor(); }
  const Tensor& block() const { return block_; }  // undefined if there is none
  // Elements in memory of the host.
  template <class T>
  std::span<T> values(std::string_view name) const {
    const Tensor& of_name = tensor(name);
    return {of_name.data<T>(), static_cast<size_t>(of_name.numel())};
  }
  // Copies the fields that both have, which are on the host.
  void copy_from(const MicroBatch& other) const;

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
  Tensor block_{};
};

// Bytes of the host that hold a block, and the micro-batch in them.
MicroBatch host_batch(const BatchSpec& spec);
// Makes what follows from the given fields, on the host.
void fill_derived(const BatchSpec& spec, const MicroBatch& batch);

// This says where the rows of [N, C] values come from: `batch` sequences of which `length`
// positions are here, sequence b in the rows from b * length on.
struct SequenceRows {
  int64_t batch = 0;
  int64_t length = 0;
  Positions positions{};
  Tensor own_positions{};  // batch_field::kPositions, if rows have their own ones
  Tensor key_ranges{};     // batch_field::kKeyRanges, if attention is to be cut
};

}  // namespace ds
