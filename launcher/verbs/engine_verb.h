// Verbs that need the engine: dslaunch becomes rankd, so that output, signals and exit code are
// rankd's own and nothing stands between.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/machine.h"
#include "launcher/process/process.h"
#include "launcher/verbs/command_context.h"
#include "launcher/verbs/command_line.h"

namespace ds {

// A verb that rankd carries out: its arguments are passed on as they are.
struct EngineVerb {
  std::vector<std::string> arguments;  // the verb first
};

// Returns where rankd lies: beside dslaunch if both were built, in libexec/dslaunch if they were
// installed.
std::string installed_engine(const std::filesystem::path& own_program);

// Does not return unless it fails. Throws InputMissing if rankd cannot be started.
[[noreturn]] void become_engine(const EngineVerb& verb, const CommandContext& context);

// What an engine verb printed, run beside us; its errors go where ours go.
struct EngineAnswer {
  enum class End { kItsOwn, kInterrupted, kTooLate } end = End::kItsOwn;
  ExitStatus status;
  std::string text;
};
struct AskLimits {
  int interrupt_fd = -1;  // readable: it is ended at once
  std::optional<std::chrono::milliseconds> longest = std::nullopt;
};
EngineAnswer ask_engine(const std::vector<std::string>& arguments, const CommandContext& context,
                        const AskLimits& limits = {});
// The same where it has to succeed: else an Error with rankd's exit code whose message begins with
// `why`.
std::string engine_output(const std::vector<std::string>& arguments, const CommandContext& context,
                          std::string_view why);

// The `plan` of the job that these options start, on ranks that compute there.
EngineVerb plan_verb(const RunOptions& options, const WorldShape& shape, Device device);

// `arguments` with what only the launcher knows: `plan` gets the device and the number of ranks
// that `run` would use where the user gave none; for GPUs that this machine has not, one rank.
std::vector<std::string> completed_arguments(std::vector<std::string> arguments,
                                             const char* visible_gpus);

}  // namespace ds
