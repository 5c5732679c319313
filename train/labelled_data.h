// Training a model that scores classes: what the configuration says of its samples, and what it
// cannot go with.
#pragma once

#include <memory>
#include <string>

#include "config/config.h"
#include "data/labelled_texts.h"
#include "train/sample_sets.h"

namespace ds {

// ConfigError where the configuration says something of classes, and the model scores none, or says
// of its samples what is for texts without classes.
void require_labelled(const DataSection& data, const ModelConfig& model);
// How its records become samples. Throws as the tokenizer's frame is read; ConfigError for pairs
// whose segments the model has no rows for.
LabelledForm labelled_form(const DataSection& data, const ModelConfig& model,
                           const Tokenizer& tokenizer, FileSystem& files);
struct LabelledData {
  std::unique_ptr<Tokenizer> tokenizer;
  SampleSets samples;
  ScoredRow scored = ScoredRow::kFirst;
};
// Opens what `data` names. Throws as open_labelled_texts does; ConfigError for a tokenizer that is
// not the model's.
LabelledData open_labelled_data(const DataSection& data, const ModelConfig& model,
                                FileSystem& files);
// Why a run cannot score classes; empty: it can, or does not.
std::string classes_conflict(const Config& config, const ModelConfig& model);

}  // namespace ds
