// What a run would meet in the files that its configuration names, told before it starts and
// without reading them through: the model and its folder, the tokenizer, the data, and whether they
// fit each other. Everything is looked at, and each thing that is wrong is said once. `dslaunch
// check` and `dslaunch run` ask for it; a run finds the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "core/files/file.h"
#include "rankd/verbs/input_defect.h"

namespace ds {

struct InputNote {  // of what a run does without, or reads otherwise than may be meant
  std::string key;
  std::string what;
};
struct InputFindings {
  std::vector<InputDefect> defects;
  std::vector<InputNote> notes;
};

// Sections that are missing are not looked for.
InputFindings look_at_inputs(const Config& config, FileSystem& files);

struct LookArgs {
  int ranks = 0;                       // of the run that is rehearsed, too; 0: none is
  bool has_limits = false;             // of memory, which count in the rehearsal
  std::string config_path;             // or base64
  std::vector<std::string> overrides;  // key.path=value
};

// The question --look: prints {"defects": [{"code", "key", "what"}, ...],
// "notes": [{"key", "what"}, ...]}, of which dslaunch makes its report. Errors of the configuration
// itself are not among them; what they concern is left out.
int run_look(const LookArgs& args);
void print_findings(const InputFindings& found);  // as that

}  // namespace ds
