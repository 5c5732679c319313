// What a look at a folder has found, part by part.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/families/list.h"
#include "model/hf/weight_folder.h"

namespace ds {

struct ModelFolderLook {
  struct Line {
    std::string part, text;  // "weights", "2 files ..."
  };
  std::string folder{};
  std::vector<Line> facts{}, notes{}, problems{};

  void add_fact(const char* part, std::string text) { facts.push_back({part, std::move(text)}); }
  void add_note(const char* part, std::string text) { notes.push_back({part, std::move(text)}); }
  void add_problem(const char* part, std::string text) {
    problems.push_back({part, std::move(text)});
  }
  // An Error is a problem of the part. Returns whether there was none.
  bool attempt(const char* part, const std::function<void()>& what);
};

// "GPT2LMHeadModel (gpt2): 2 layers ...": its class and its sizes.
std::string model_text(const ModelConfig& model);
// "12 tensors (12 F32), 48 KiB", by the headers.
std::string stored_text(const WeightFolder& weights);

}  // namespace ds
