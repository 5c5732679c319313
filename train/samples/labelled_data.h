// Training a model that scores classes: what the configuration says of its samples, and what it
// cannot go with.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"
#include "train/batches/scored_samples.h"
#include "train/samples/sample_sets.h"

namespace ds {

// Whether it scores classes of tokens, not of texts.
bool scores_tokens(const ModelConfig& model);
// What it scores of samples, of a model that scores.
ScoredSamples scored_samples(const ModelConfig& model);

// ConfigError where the configuration says something of classes, and the model scores none or
// others, or says of its samples what is for texts without classes.
void require_labelled(const DataSection& data, const ModelConfig& model);

// Reads records as a model that scores classes takes them: texts, or sentences of words.
class LabelledReader {
 public:
  // Throws as the tokenizer and its frame are read; ConfigError for a tokenizer that is not the
  // model's, and for pairs whose segments the model has no rows for.
  // length_key: what says of how many tokens samples are, as messages name it.
  LabelledReader(const DataSection& data, const ModelConfig& model, FileSystem& files,
                 const std::string& length_key = "data.sequence_length");

  int64_t numbers() const { return numbers_; }  // that a SampleSet has for each sample
  // The samples of these files. Throws as open_labelled_texts() and open_tagged_words() do.
  std::shared_ptr<const TokenSource> open(std::span<const std::string> paths) const {
    return open_(paths);
  }
  std::shared_ptr<Tokenizer> tokenizer() const { return tokenizer_; }

 private:
  using Open = std::function<std::shared_ptr<const TokenSource>(std::span<const std::string>)>;
  std::shared_ptr<Tokenizer> tokenizer_;
  int64_t numbers_ = 0;
  Open open_;
};

struct LabelledData {
  std::shared_ptr<Tokenizer> tokenizer;
  SampleSets samples;
  ScoredSamples scored{};
};
// Opens what `data` names, as LabelledReader does.
LabelledData open_labelled_data(const DataSection& data, const ModelConfig& model,
                                FileSystem& files);
// Why a run cannot score classes; empty: it can, or does not.
std::string classes_conflict(const Config& config, const ModelConfig& model);

}  // namespace ds
