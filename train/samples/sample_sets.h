// The samples of a run: those of training and those of validation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/sections/training.h"
#include "data/tokens/dataset.h"

namespace ds {

struct SampleSets {
  SampleSet train;
  std::optional<SampleSet> validation;
};

// What `data` names, as sources(paths), cut into samples by set(sources).
template <class Sources, class Set>
SampleSets open_samples(const DataSection& data, const Sources& sources, const Set& set) {
  const auto open_mixture = [&] {
    std::vector<WeightedSources> groups;
    for (size_t i = 0; i < data.train.size(); ++i)
      groups.push_back({sources({data.train[i]}), data.weights[i]});
    return set(std::move(groups));
  };
  SampleSet train = data.weights.empty() ? set(sources(data.train)) : open_mixture();
  std::optional<SampleSet> validation;
  if (!data.validation.empty()) {
    validation = set(sources(data.validation));
  } else if (data.validation_fraction > 0) {
    auto [rest, held] = train.split(data.validation_fraction);
    train = std::move(rest);
    validation = std::move(held);
  }
  return {std::move(train), std::move(validation)};
}

// What `data` names, as samples of records by a reader: open(paths) is a run of numbers, of which
// numbers() are a sample.
template <class Reader>
SampleSets open_record_samples(const DataSection& data, const Reader& reader) {
  const auto sources = [&](const std::vector<std::string>& paths) {
    return std::vector{reader.open(paths)};
  };
  return open_samples(data, sources, [&](auto from) {
    return SampleSet(std::move(from), reader.numbers(), INT32_MAX);
  });
}

}  // namespace ds
