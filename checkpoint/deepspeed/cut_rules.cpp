#include "checkpoint/deepspeed/cut_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/status/error.h"
#include "core/text/number_in.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

// Python's re.match looks from the beginning of a name, and not up to its end.
NamePattern pattern_of(const SavedFields& info, std::string_view key, std::string_view text) {
  try {
    return {info.name_of(key), fmt::format("\\A(?:{})", text), NamePattern::Case::kExact};
  } catch (const ConfigError& error) {
    throw DataError(error.what());
  }
}

std::string_view text_in(const SavedFields& info, std::string_view key, const TorchValue& value) {
  const std::optional<std::string_view> text = value.as_text();
  if (!text) info.refuse(key, "patterns of names");
  return *text;
}

std::vector<NamePattern> patterns_in(const SavedFields& info, std::string_view key) {
  std::vector<NamePattern> patterns;
  if (info.find(key) == nullptr) return patterns;
  for (const TorchValue& item : info.list(key).items) {
    patterns.push_back(pattern_of(info, key, text_in(info, key, item)));
  }
  return patterns;
}

bool fits(const std::vector<NamePattern>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const NamePattern& one) { return one.found_in(name); });
}

// Extents and counts of rows: none is larger, so that a few of them can be added up.
constexpr int64_t kLargestExtent = int64_t{1} << 48;

int64_t integer_in(const SavedFields& fields, std::string_view key, const TorchValue& value) {
  const std::optional<int64_t> number = value.as_int();
  if (!number || *number > kLargestExtent || *number < -1)
    fields.refuse(key, "integers of extents");
  return *number;
}

Extents integers_in(const SavedFields& fields, std::string_view key, const TorchValue& value) {
  const TorchList* list = value.as_sequence();
  if (list == nullptr) fields.refuse(key, "lists of integers");
  Extents numbers;
  for (const TorchValue& item : list->items) numbers.push_back(integer_in(fields, key, item));
  return numbers;
}

// What each rank has of each sub-parameter, as version 0.4 writes it beside the patterns.
std::vector<Extents> written_widths(const SavedFields& info, std::string_view pattern) {
  constexpr std::string_view kWidths = "sub_param_shard_widths";
  std::vector<Extents> widths;
  const std::optional<SavedFields> all = info.optional_fields(kWidths);
  const TorchValue* value = all ? all->find(pattern) : nullptr;
  if (value == nullptr) return widths;
  const TorchList* list = value->as_sequence();
  if (list == nullptr) info.refuse(kWidths, "lists of integers by patterns");
  for (const TorchValue& part : list->items) {
    widths.push_back(integers_in(info, kWidths, part));
    if (std::ranges::any_of(widths.back(), [](int64_t width) { return width < 0; })) {
      info.refuse(kWidths, "numbers of rows, none below 0");
    }
  }
  return widths;
}

// {"patterns": [...], "shape": [(a, b, c), -1], "partition_dim": 0}: a tuple has the extents of the
// sub-parameters, an integer in its place how many of equal extents there are.
CutRule sub_parameter_rule(const SavedFields& fields) {
  constexpr std::string_view kShape = "shape", kAxis = "partition_dim";
  CutRule rule{.axis = fields.integer(kAxis)};
  const std::vector<TorchValue>& shape = fields.list(kShape).items;
  if (rule.axis < 0 || rule.axis >= std::ssize(shape)) fields.refuse(kAxis, "an axis of its shape");
  for (const TorchValue& extent : shape) {
    if (extent.as_int()) {
      rule.view.push_back(integer_in(fields, kShape, extent));
      continue;
    }
    const Extents parts = integers_in(fields, kShape, extent);
    rule.view.push_back(std::accumulate(parts.begin(), parts.end(), int64_t{0}));
    if (std::ssize(rule.view) == rule.axis + 1) rule.sizes = parts;
  }
  if (rule.sizes.empty()) rule.equal_parts = nth(rule.view, rule.axis);
  if (rule.equal_parts < 1) fields.refuse(kShape, "sub-parameters along that axis");
  return rule;
}

}  // namespace

void CutRules::add_sub_parameters(const SavedFields& info) {
  constexpr std::string_view kKey = "parameter_with_sub_params";
  if (info.find(kKey) == nullptr) return;
  for (const TorchValue& item : info.list(kKey).items) {
    const TorchDict* dict = item.as_dict();
    if (dict == nullptr) info.refuse(kKey, "a list of dicts");
    const SavedFields fields(info.file(), *dict, std::string(kKey));
    const CutRule rule = sub_parameter_rule(fields);
    for (const TorchValue& value : fields.list("patterns").items) {
      const std::string_view text = text_in(fields, "patterns", value);
      SubParameters& added = sub_parameters_.emplace_back();
      added.patterns.push_back(pattern_of(fields, "patterns", text));
      added.rule = rule;
      if (std::vector<Extents> widths = written_widths(info, text); !widths.empty()) {
        added.rule.widths = std::move(widths);
        added.rule.sizes.clear();
      }
    }
  }
}

std::optional<CutRules> CutRules::of(const SavedFields& model) {
  const std::optional<SavedFields> info = model.optional_fields("universal_checkpoint_info");
  if (!info) return std::nullopt;
  CutRules rules;
  rules.path_ = info->name_of();
  rules.same_ = patterns_in(*info, "tp_replicated_parameter_patterns");
  rules.mean_ = patterns_in(*info, "parameter_to_average_patterns");
  rules.pairs_ = patterns_in(*info, "parameter_with_2_sub_params_cat_dim_0");
  rules.by_rows_ = patterns_in(*info, "parameter_with_row_parallelism_patterns");
  rules.vocabulary_ = patterns_in(*info, "vocabulary_parameter_patterns");
  rules.words_ = info->optional_integer("original_vocab_size");
  rules.add_sub_parameters(*info);
  constexpr std::string_view kUnknown = "autotp_unsupported_parameter_patterns";
  if (const auto unknown = info->optional_fields(kUnknown)) {
    for (const auto& [key, value] : unknown->dict().items) {
      rules.unknown_.emplace_back(pattern_of(*info, kUnknown, text_in(*info, kUnknown, key)),
                                  std::string(value.as_text().value_or("")));
    }
  }
  return rules;
}

CutRule CutRules::of(const std::string& name) const {
  for (const auto& [pattern, why] : unknown_) {
    if (!pattern.found_in(name)) continue;
    throw Unsupported(
        fmt::format("{} does not say how {} is cut over ranks: {}", path_, name, why));
  }
  CutRule rule;
  if (fits(same_, name)) {
    rule.kind = CutRule::Kind::kSame;
  } else if (fits(mean_, name)) {
    rule.kind = CutRule::Kind::kMean;
  } else if (fits(pairs_, name)) {
    rule.equal_parts = 2;
  } else if (const auto found = std::ranges::find_if(
                 sub_parameters_, [&](const auto& one) { return fits(one.patterns, name); });
             found != sub_parameters_.end()) {
    rule = found->rule;
  } else if (fits(by_rows_, name)) {
    rule.axis = 1;
  }
  if (fits(vocabulary_, name)) {
    if (!words_) {
      throw DataError(
          fmt::format("{}: original_vocab_size is missing, behind which the rows of {} are padding",
                      path_, name));
    }
    rule.rows = words_;
  }
  return rule;
}

namespace {

// Such names end in a parameter of a module of Megatron's.
bool ends_in(std::string_view name, std::string_view module) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view front = name.substr(0, dot);
  return front == module || front.ends_with(fmt::format(".{}", module));
}

}  // namespace

bool tells_of_megatron(std::string_view name) {
  constexpr std::array kFronts{"language_model.", "model.language_model.", "module.language_model.",
                               "module.model.language_model."};
  if (std::ranges::any_of(kFronts, [&](const char* front) { return name.starts_with(front); }))
    return true;
  // A pipeline has numbers of layers instead, and Megatron's names of modules within them.
  return number_in<int64_t>(name.substr(0, name.find('.'))) &&
         (ends_in(name, "dense_h_to_4h") || ends_in(name, "self_attention.query_key_value"));
}

CutRule megatron_rule(std::string_view name, const MegatronFacts& facts) {
  const bool is_bias = name.ends_with(".bias");
  CutRule rule;
  if (ends_in(name, "dense_h_to_4h")) {
    rule.equal_parts = facts.is_gated ? 2 : 1;
    return rule;
  }
  if (ends_in(name, "query_key_value")) {
    rule.equal_parts = facts.version < 1 ? 3 : 1;  // else head by head
    return rule;
  }
  for (const std::string_view module :
       {"word_embeddings", "output_layer", "lm_head", "query", "key_value"}) {
    if (ends_in(name, module)) return rule;
  }
  const bool is_by_rows = ends_in(name, "attention.dense") ||
                          ends_in(name, "self_attention.dense") || ends_in(name, "dense_4h_to_h");
  if (is_by_rows && !is_bias) {
    rule.axis = 1;
    return rule;
  }
  rule.kind = CutRule::Kind::kSame;
  return rule;
}

}  // namespace ds::deepspeed
