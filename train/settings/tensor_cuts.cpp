#include "train/settings/tensor_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "config/sections/split/tensor.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "model/families/zoo.h"
#include "model/hf/weights.h"

namespace ds {
namespace {

using deepspeed::FamilyCut;

std::vector<Range> rows_of(const ParamSpec& spec) {
  if (spec.cut.is_whole()) return {{0, spec.shape[0]}};
  return spec.cut.axes.front();
}

// The rows of a stored tensor that a part of it has, in its order there.
void add_rows(const ParamSpec& spec, std::vector<Range>& rows) {
  const StoredRows& stored = *spec.stored;
  for (const Range& range : rows_of(spec)) {
    for (int64_t own = range.begin; own < range.end;) {
      const int64_t end = std::min(range.end, (own / stored.block + 1) * stored.block);
      const int64_t first = stored.row_of(own);
      rows.push_back({first, first + end - own});
      own = end;
    }
  }
}

// Ascending, and as few as there can be.
std::vector<Range> merged(std::vector<Range> rows) {
  std::ranges::sort(rows, {}, &Range::begin);
  std::vector<Range> merged;
  for (const Range& range : rows) {
    if (!merged.empty() && merged.back().end == range.begin) {
      merged.back().end = range.end;
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

bool is_vocabulary(const ParamSpec& spec) {
  return spec.looked_up || spec.name.ends_with("lm_head.weight");
}

// One rank's cuts, added to those of the ranks before it.
void add_rank(const ModelConfig& model, const TensorPlace& place,
              std::map<std::string, FamilyCut>& cuts) {
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32, place);
  for (const ExportTensor& entry : export_list(specs, DType::kF32)) {
    const ParamSpec& first = *entry.parts.front();
    if (!first.pieces.empty()) {
      throw Unsupported(fmt::format("{}: experts that tensor-parallel ranks of DeepSpeed share",
                                    entry.tensor.name));
    }
    FamilyCut& cut = cuts[entry.tensor.name];
    cut.whole = entry.tensor.shape;
    cut.is_vocabulary = is_vocabulary(first);
    if (!first.stored) {
      cut.ranks.push_back(first.cut);
      continue;
    }
    std::vector<Range> rows_here;
    for (const ParamSpec* part : entry.parts) add_rows(*part, rows_here);
    Cut own;
    for (int axis = 0; axis < cut.whole.rank(); ++axis) {
      own.axes.push_back({{0, cut.whole[axis]}});
      if (first.cut.is_whole() || axis == 0) continue;
      own.axes.back() = nth(first.cut.axes, axis);
    }
    own.axes.front() = merged(std::move(rows_here));
    cut.ranks.push_back(std::move(own));
  }
}

}  // namespace

std::map<std::string, FamilyCut> tensor_cuts(const ModelConfig& model, int64_t ranks) {
  if (const std::string why = tensor_conflict(model, TensorSplit{.ranks = ranks}); !why.empty()) {
    throw Unsupported(fmt::format("{} tensor-parallel ranks: {}", ranks, why));
  }
  std::map<std::string, FamilyCut> cuts;
  for (int rank = 0; rank < narrow<int>(ranks); ++rank) {
    add_rank(model, {.rank = rank, .ranks = narrow<int>(ranks)}, cuts);
  }
  return cuts;
}

void join_ranks(deepspeed::DeepSpeedFolder& folder, const ModelConfig& model,
                const std::map<std::string, std::string>& names) {
  if (!folder.needs_cuts()) return;
  std::set<std::string> known;
  for (const auto& [name, stored] : names) known.insert(name);
  std::map<std::string, FamilyCut> by_stored;
  for (auto& [name, cut] : tensor_cuts(model, folder.progress().tensor_ranks)) {
    const auto found = names.find(stored_name_of(name, known));
    if (found != names.end()) by_stored.emplace(found->second, std::move(cut));
  }
  folder.join([&](const std::string& name) -> std::optional<FamilyCut> {
    const auto found = by_stored.find(name);
    return found == by_stored.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace ds
