// A sample for people and for programs (pure but for what it prints).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/reader/value.h"
#include "data/tokenizer/tokenizer.h"
#include "train/assemble.h"

namespace ds {

struct ShownSample {
  int64_t number = 0;
  std::string place;  // "chat.jsonl:1"
  std::vector<int32_t> tokens;
  std::vector<uint8_t> learnt;    // of each token, whether the one before it is to tell it
  std::vector<int64_t> examples;  // at which token each begins
  bool is_pair = false;           // of a better answer and a worse one
};

// A sample without its padding. `set`: of data with these rules.
ShownSample shown_sample(const SampleSet& set, const SampleRules& rules, int64_t number);

// A run of tokens of one example that are all learnt, or all not.
struct ShownPiece {
  std::string text;  // UTF-8; ids where there is no tokenizer
  bool is_learnt = false;
  bool begins_example = false;
  std::string_view label{};  // of an example that begins: which of a pair it is
};
std::vector<ShownPiece> pieces_of(const ShownSample& sample, const Tokenizer* tokenizer);

// "sample 0, chat.jsonl:1: 26 tokens, 13 of them learnt".
std::string title_of(const ShownSample& sample);
// The sample as a text whose learnt parts stand in brackets.
std::string page_of(const ShownSample& sample, const Tokenizer* tokenizer);
Value json_of(const ShownSample& sample, const Tokenizer* tokenizer);

}  // namespace ds
