#include "data/dataset.h"

#include <algorithm>
#include <cmath>

namespace ds {

SampleSet::SampleSet(std::vector<std::shared_ptr<const TokenSource>> sources,
                     int64_t sequence_length, int64_t vocab_size)
    : sources_(std::move(sources)), sequence_length_(sequence_length), vocab_size_(vocab_size) {
  DS_CHECK(sequence_length > 0 && vocab_size > 0, "samples: sequence length {} and vocabulary {}",
           sequence_length, vocab_size);
  first_sample_.push_back(0);
  int64_t tokens = 0;
  for (const auto& source : sources_) {
    tokens += source->size();
    const int64_t samples = source->size() > 0 ? (source->size() - 1) / sequence_length : 0;
    first_sample_.push_back(first_sample_.back() + samples);
  }
  end_ = first_sample_.back();
  if (end_ == 0) {
    const std::string where = sources_.empty() ? "no data files" : sources_[0]->locate(0);
    throw DataError(fmt::format("{}: {} tokens make no sample of sequence length {}, which needs {} in "
                                "one source", where, tokens, sequence_length, sequence_length + 1));
  }
}

void SampleSet::read(int64_t sample, std::span<int32_t> tokens) const {
  DS_CHECK(sample >= 0 && sample < size(), "sample {} of {}", sample, size());
  DS_CHECK(static_cast<int64_t>(tokens.size()) == sequence_length_ + 1,
           "sample: room for {} tokens, expected {}", tokens.size(), sequence_length_ + 1);
  const int64_t index = begin_ + sample;
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), index);
  const auto at = static_cast<size_t>(after - first_sample_.begin()) - 1;
  const TokenSource& source = *sources_[at];
  const int64_t offset = (index - first_sample_[at]) * sequence_length_;
  source.read(offset, tokens);
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](int32_t id) {
    return id < 0 || id >= vocab_size_;
  });
  if (bad != tokens.end()) {
    throw DataError(fmt::format("{}: token id {} is outside the vocabulary of {}",
                                source.locate(offset + (bad - tokens.begin())),
                                static_cast<uint32_t>(*bad), vocab_size_));
  }
}

void SampleSet::check(int64_t max_tokens) const {
  std::vector<int32_t> tokens(static_cast<size_t>(sequence_length_) + 1);
  const int64_t count = std::min(size(), max_tokens / sequence_length_);
  for (int64_t sample = 0; sample < count; ++sample) read(sample, tokens);
}

std::pair<SampleSet, SampleSet> SampleSet::split(double validation_fraction) const {
  DS_CHECK(validation_fraction > 0.0 && validation_fraction < 1.0,
           "validation fraction {}, expected more than 0 and less than 1", validation_fraction);
  const auto wanted =
      static_cast<int64_t>(std::ceil(validation_fraction * static_cast<double>(size())));
  if (size() < 2) {
    throw DataError(fmt::format("{}: one sample cannot be split into training and validation data",
                                sources_[0]->locate(0)));
  }
  const int64_t count = std::min(wanted, size() - 1);
  std::pair<SampleSet, SampleSet> out(*this, *this);
  out.first.end_ = end_ - count;
  out.second.begin_ = end_ - count;
  return out;
}

}  // namespace ds
