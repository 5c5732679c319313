// The files that a configuration names, as the engine sees them: `rankd --look` opens them, since
// the launcher knows nothing of models, tokenizers and data. `check` and `run` share it, so that
// both say the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "launcher/process/signals.h"
#include "launcher/verbs/run.h"

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

// It takes a minute at most: on a slow disk a run goes on without, and finds what there is to find.
// `interrupt_fd`
// (-1: none) ends it when it becomes readable.
InputLook look_at_inputs(const std::string& config, const std::vector<std::string>& overrides,
                         const CommandContext& context, int interrupt_fd = -1);

// The plan of a run of so many ranks, as its ranks would make it (`rankd --rehearse`), within the
// same time. Limits of memory count where the run will have just these ranks.
enum class RanksAre { kThoseOfTheRun, kFewest };
InputLook rehearse_run(const std::string& config, const std::vector<std::string>& overrides,
                       int ranks, RanksAre ranks_are, const CommandContext& context);

// Throws an Error with everything that is wrong, before anything of the run is there; that of a
// signal where one came. What else there is to say: notes.
std::vector<std::string> require_inputs(const RunOptions& options, const CommandContext& context,
                                        SignalWatch& signals);

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
