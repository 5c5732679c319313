// Data of supervised fine-tuning: what the configuration says of its examples, and what it cannot
// go with.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "config/config.h"
#include "data/supervised/preference_examples.h"
#include "data/supervised/supervised_samples.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

// Reads records as data.format says. The files must outlive it.
class SupervisedReader {
 public:
  // Throws as the tokenizer, its frame and its chat template are read; ConfigError for a tokenizer
  // that is not the model's, and for a model that does not predict next tokens.
  SupervisedReader(const DataSection& data, const ModelConfig& model, FileSystem& files);

  // The samples of these files. Throws as open_supervised() and open_preferences() do.
  std::shared_ptr<const TokenSource> open(std::span<const std::string> paths) const {
    return pairs_ ? open_preferences(files_, paths, *pairs_, form_)
                  : open_supervised(files_, paths, *examples_, form_);
  }
  int64_t numbers() const { return numbers_of_supervised(form_.length.tokens); }
  std::shared_ptr<Tokenizer> tokenizer() const { return tokenizer_; }  // null: of token ids

 private:
  FileSystem& files_;
  std::shared_ptr<Tokenizer> tokenizer_;
  SupervisedForm form_;
  std::unique_ptr<const ExampleReader> examples_;  // null where records are pairs
  std::unique_ptr<const PairReader> pairs_;
};

}  // namespace ds
