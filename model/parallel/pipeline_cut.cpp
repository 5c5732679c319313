// Where a model is cut into pipeline stages.
#include "model/parallel/pipeline_cut.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/index.h"
#include "core/partition.h"

namespace ds {

namespace {

constexpr std::string_view kTypePrefix = "type:";

class Pattern {
 public:
  explicit Pattern(std::string_view text) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_CASELESS, &error, &offset, nullptr));
    if (!code_) {
      throw ConfigError(fmt::format(
          "pipeline.partition: '{}' is no regular expression (at character {})", text, offset));
    }
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  bool found_in(std::string_view text) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       match_.get(), nullptr) >= 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

}  // namespace

std::vector<int64_t> cut_layers(std::string_view method, std::span<const CutLayer> layers,
                                int stages) {
  const std::string lower = lower_case(method);
  if (lower == "uniform") return partition_uniform(narrow<int64_t>(layers.size()), stages);
  std::vector<double> weights;
  if (lower == "parameters") {
    for (const CutLayer& layer : layers) weights.push_back(static_cast<double>(layer.parameters));
  } else if (lower.starts_with(kTypePrefix)) {
    const Pattern pattern(method.substr(kTypePrefix.size()));
    for (const CutLayer& layer : layers) weights.push_back(pattern.found_in(layer.type) ? 1 : 0);
    if (std::ranges::count(weights, 0) == std::ssize(weights)) {
      throw ConfigError(
          fmt::format("pipeline.partition: none of the {} layers has a class name with '{}'; name "
                      "one of theirs",
                      layers.size(), method.substr(kTypePrefix.size())));
    }
  } else {
    throw ConfigError(fmt::format(
        "pipeline.partition is '{}', expected uniform, parameters or type:PATTERN", method));
  }
  return partition_balanced(weights, stages);
}

}  // namespace ds
