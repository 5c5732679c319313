#include "data/tokens/dataset.h"

#include <algorithm>
#include <cmath>

#include "config/families/spec/limits.h"
#include "core/values/index.h"

namespace ds {

std::optional<int64_t> sum_of_documents(
    std::span<const std::shared_ptr<const TokenSource>> sources) {
  int64_t sum = 0;
  for (const auto& source : sources) {
    const std::optional<int64_t> documents = source->documents();
    if (!documents) return std::nullopt;
    sum += *documents;
  }
  return sum;
}

SampleSet::SampleSet(std::vector<std::shared_ptr<const TokenSource>> sources,
                     int64_t sequence_length, int64_t vocab_size)
    : sequence_length_(sequence_length), vocab_size_(vocab_size) {
  parts_.push_back({.first = 0, .count = add_sources(std::move(sources))});
  arrange();
}

SampleSet::SampleSet(std::vector<WeightedSources> groups, int64_t sequence_length,
                     int64_t vocab_size)
    : sequence_length_(sequence_length), vocab_size_(vocab_size) {
  for (WeightedSources& group : groups) {
    DS_CHECK(group.weight > 0, "samples: weight {}, expected more than 0", group.weight);
    const int64_t first = first_sample_.back();
    parts_.push_back(
        {.first = first, .count = add_sources(std::move(group.sources)), .weight = group.weight});
  }
  arrange();
}

int64_t SampleSet::add_sources(std::vector<std::shared_ptr<const TokenSource>> sources) {
  DS_CHECK(sequence_length_ > 0 && vocab_size_ > 0, "samples: sequence length {} and vocabulary {}",
           sequence_length_, vocab_size_);
  const int64_t before = first_sample_.back();
  int64_t tokens = 0;
  for (const auto& source : sources) {
    tokens += source->size();
    const int64_t samples = source->size() > 0 ? (source->size() - 1) / sequence_length_ : 0;
    first_sample_.push_back(first_sample_.back() + samples);
  }
  if (first_sample_.back() == before) {
    const std::string where = sources.empty() ? "no data files" : sources[0]->locate(0);
    throw DataError(
        fmt::format("{}: {} tokens make no sample of sequence length {}, which needs {} in "
                    "one source",
                    where, tokens, sequence_length_, sequence_length_ + 1));
  }
  sources_.insert(sources_.end(), sources.begin(), sources.end());
  return first_sample_.back() - before;
}

// times_i = weight_i * max_j (count_j / weight_j): the part that is largest for its weight comes
// once.
void SampleSet::arrange() {
  double samples_per_weight = 0;
  for (const Part& part : parts_) {
    if (part.weight > 0)
      samples_per_weight =
          std::max(samples_per_weight, static_cast<double>(part.count) / part.weight);
  }
  size_ = 0;
  for (Part& part : parts_) {
    const double wanted = part.weight * samples_per_weight;
    if (wanted > static_cast<double>(kMostSamples)) {
      throw ConfigError(fmt::format(
          "data.weights: {} is so much for its entry of {} samples that an epoch would have "
          "more than {}; take weights that are nearer to each other",
          part.weight, part.count, kMostSamples));
    }
    part.times = std::max(part.count, static_cast<int64_t>(std::llround(wanted)));
    size_ += part.times;
  }
}

size_t SampleSet::source_of(int64_t sample) const {
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  return to_size(after - first_sample_.begin()) - 1;
}

SampleSet::Place SampleSet::place_of(int64_t sample) const {
  auto part = parts_.begin();
  for (; sample >= part->times; ++part) sample -= part->times;
  const int64_t index = part->first + sample % part->count;
  const size_t at = source_of(index);
  return {*sources_[at], (index - first_sample_[at]) * sequence_length_};
}

std::string SampleSet::locate(int64_t sample) const {
  DS_CHECK(sample >= 0 && sample < size(), "sample {} of {}", sample, size());
  const auto [source, offset] = place_of(sample);
  return source.locate(offset);
}

std::vector<std::string> SampleSet::notes() const {
  std::vector<std::string> notes;
  for (const auto& source : sources_) {
    for (std::string& note : source->notes()) notes.push_back(std::move(note));
  }
  return notes;
}

void SampleSet::read(int64_t sample, std::span<int32_t> tokens) const {
  DS_CHECK(sample >= 0 && sample < size(), "sample {} of {}", sample, size());
  DS_CHECK(narrow<int64_t>(tokens.size()) == sequence_length_ + 1,
           "sample: room for {} tokens, expected {}", tokens.size(), sequence_length_ + 1);
  const auto [source, offset] = place_of(sample);
  source.read(offset, tokens);
  const auto bad = std::find_if(tokens.begin(), tokens.end(),
                                [&](int32_t id) { return id < 0 || id >= vocab_size_; });
  if (bad != tokens.end()) {
    throw DataError(fmt::format("{}: token id {} is outside the vocabulary of {}",
                                source.locate(offset + (bad - tokens.begin())),
                                static_cast<uint32_t>(*bad), vocab_size_));
  }
}

void SampleSet::check(int64_t max_tokens) const {
  std::vector<int32_t> tokens(to_size(sequence_length_) + 1);
  const int64_t count = std::min(size(), max_tokens / sequence_length_);
  for (int64_t sample = 0; sample < count; ++sample) read(sample, tokens);
}

std::pair<SampleSet, SampleSet> SampleSet::split(double validation_fraction) const {
  DS_CHECK(validation_fraction > 0.0 && validation_fraction < 1.0,
           "validation fraction {}, expected more than 0 and less than 1", validation_fraction);
  std::pair<SampleSet, SampleSet> out(*this, *this);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& whole = parts_[i];
    if (whole.count < 2) {
      throw DataError(
          fmt::format("{}: one sample cannot be split into training and validation data",
                      sources_[source_of(whole.first)]->locate(0)));
    }
    const auto wanted =
        static_cast<int64_t>(std::ceil(validation_fraction * static_cast<double>(whole.count)));
    const int64_t held = std::min(wanted, whole.count - 1);
    out.first.parts_[i].count -= held;
    out.second.parts_[i] = {.first = whole.first + whole.count - held, .count = held};
  }
  out.first.arrange();
  out.second.arrange();
  return out;
}

}  // namespace ds
