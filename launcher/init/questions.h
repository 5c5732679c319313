// The questions of `dslaunch init`, and what answers are taken: from options first, then from
// whoever answers, else the defaults. Reads no terminal and no file itself.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/verbs/init.h"
#include "launcher/init/choices.h"

namespace ds {

struct Question {
  std::string option;                     // "--steps"
  std::string text;                       // "Optimizer steps"
  std::optional<std::string> fallback{};  // none: it has to be answered
};

class Answers {
 public:
  virtual ~Answers() = default;
  // Empty for the fallback. Throws UsageError when nobody answers any more.
  virtual std::string ask(const Question& question) = 0;
  virtual void refuse(const std::string& why) = 0;  // the last answer; the question comes again
};

struct InitContext {
  std::function<InputFacts(const std::string& path)> look;  // throws where it cannot be read
  std::function<bool(const std::string& path)> exists;
  std::function<std::optional<int64_t>(const std::string& path)> file_bytes;  // none: no plain file
  // The data.format of examples; "text" of files that have none.
  std::function<std::string(const std::vector<std::string>& paths)> format_of;
  int ranks = 1;                         // that a run here would have
  std::function<bool()> bf16_is_faster;  // than fp32; asked only where nobody says what is wanted
};

// `answers` is null where nobody can be asked: then what has no default and no option is a
// UsageError that names it, as is an option that cannot be.
TrainingChoices choose_training(const InitOptions& options, const InitContext& context,
                                Answers* answers);

}  // namespace ds
