// The files that a configuration names, as the engine sees them: `rankd --look` opens them, since
// the launcher knows nothing of models, tokenizers and data. `check` and `run` share it, so that
// both say the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/status/error.h"
#include "launcher/process/signals.h"
#include "launcher/verbs/command_context.h"
#include "launcher/verbs/command_line.h"

namespace ds {

struct WrongInput {
  ExitCode code = ExitCode::kDone;  // what a run would end with
  std::string key;                  // of the configuration: "data.train"
  std::string what;
};

struct NotedInput {  // what a run does without, or reads otherwise than may be meant
  std::string key;
  std::string what;
};

struct InputLook {
  std::vector<WrongInput> wrong;
  std::vector<NotedInput> noted;
  std::optional<std::string> not_done;  // why nobody looked
};

// A run that is planned, too, as its ranks would plan it, where nothing is wrong with its inputs.
struct PlannedRun {
  int ranks = 0;            // 0: nothing is planned
  bool has_limits = false;  // limits of memory count: the ranks are those of the run, on CPUs
};

// It takes a minute at most: on a slow disk a run goes on without, and finds what there is to find.
// `interrupt_fd` (-1: none) ends it when it becomes readable.
InputLook look_at_inputs(const std::string& config, const std::vector<std::string>& overrides,
                         const PlannedRun& run, const CommandContext& context,
                         int interrupt_fd = -1);

// Throws an Error with everything that is wrong, before anything of the run is there; that of a
// signal where one came. What else there is to say: notes.
std::vector<std::string> require_inputs(const RunOptions& options, const PlannedRun& run,
                                        const CommandContext& context, SignalWatch& signals);

// The notes alone, where ranks are on other hosts: what is wrong with their files they see
// themselves.
std::vector<std::string> notes_of_inputs(const RunOptions& options, const CommandContext& context,
                                         SignalWatch& signals);

// The same of ranks that generate what `order_file` says.
void require_generation(const std::string& order_file, int ranks, const CommandContext& context,
                        SignalWatch& signals);

// What `rankd --look` printed; nothing where that is no such text (pure).
std::optional<InputLook> parse_look(const std::string& json);

}  // namespace ds
