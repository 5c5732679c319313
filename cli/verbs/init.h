// `dslaunch init`
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

// As typed: questions on the terminal take the same words, and launcher/init/questions.h checks
// both.
struct InitOptions {
  std::vector<std::string> data{};
  std::optional<std::string> model{};
  std::optional<std::string> finetune{};  // a folder, in the place of a model
  bool lora = false;                      // beside its weights
  std::optional<std::string> tokenizer{};
  std::optional<std::string> sequence_length{};
  std::optional<std::string> batch{};
  std::optional<std::string> precision{};
  std::optional<std::string> zero_stage{};
  std::optional<std::string> steps{};
  std::string output = "train.json";
  bool force = false;
  bool json = false;
};

void describe_init(VerbApp& app, InitOptions& options);

}  // namespace ds
