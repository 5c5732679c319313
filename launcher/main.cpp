// dslaunch: starts and watches training jobs. Environment variables are read here and
// nowhere else, but for HOME (core/files/home.h).
#include <openssl/crypto.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command_line.h"
#include "cli/failure.h"
#include "cli/text/terminal_text.h"
#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "core/text/secrecy.h"
#include "launcher/actions.h"
#include "launcher/agents/started_place.h"
#include "launcher/process/process.h"
#include "launcher/verbs/engine_verb.h"
#include "launcher/verbs/run.h"
#include "proto/build_info.h"

namespace ds {
namespace {

CommandContext read_context() {
  CommandContext out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    out.environment.emplace_back(*entry);
  }
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  out.own_program = self.string();
  // Tests put their own rank program here.
  const char* const program = std::getenv("DSLAUNCH_RANKD");
  out.rank_program = program != nullptr ? program : installed_engine(self);
  out.visible_gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* const no_colour = std::getenv("NO_COLOR");
  out.no_colour = no_colour != nullptr && *no_colour != '\0';
  return out;
}

std::string version_text() {
  const BuildInfo build = build_info();
  return fmt::format("dslaunch {} (commit {}; {})\n", build.version, build.git_id,
                     built_in_text(build));
}

// What a command line asks for, and who of many that a starter has started does it.
struct Command {
  Action action;
  bool for_all = false;
};

Command text_to_print(std::string text) {
  return {[text = std::move(text)](const CommandContext&) {
    say("{}", text);
    return 0;
  }};
}

Command command_of(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "--version") return text_to_print(version_text());
  ParsedLine line = parse_line(arguments);
  if (auto* const info = std::get_if<InfoText>(&line)) return text_to_print(std::move(info->text));
  const auto& parsed = std::get<ParsedVerb>(line);
  return {action_for(parsed, arguments), starts_ranks(parsed) || parsed.verb->name == "agent"};
}

// One of many that mpirun or srun has started, and not the one that speaks for them.
bool stands_behind_another(const CommandContext& context) {
  try {
    const auto place = discover_start(as_environment(context.environment));
    return place && !place->is_launcher();
  } catch (const UsageError&) {
    return false;
  }
}

void wipe_what_openssl_frees() {
  const bool ours = CRYPTO_set_mem_functions(&WipingMemory::allocate, &WipingMemory::resize,
                                             &WipingMemory::release) == 1;
  DS_CHECK(ours, "dslaunch: OpenSSL had memory before we began");
}

int run(int argc, char** argv) {
  const CommandContext context = read_context();
  Command command;
  try {
    command = command_of({argv + 1, argv + argc});
  } catch (const Error& error) {
    if (!stands_behind_another(context)) throw;
    // The first one says it, and has to be heard before the starter ends all because of us.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return static_cast<int>(error.exit_code());
  }
  if (!command.for_all && stands_behind_another(context)) return 0;
  return command.action(context);
}

int end_by(const Error& error, const std::vector<std::string>& arguments) {
  const int code = static_cast<int>(error.exit_code());
  say(stderr, "error: {}\n", error.what());
  if (wants_json(arguments)) say("{}", failure_json(error.what(), code));
  return code;
}

int end_by_bug(const std::exception& error) {
  say(stderr, "error: {} (this is a bug in dslaunch)\n", error.what());
  return static_cast<int>(ExitCode::kInternal);
}

// Whoever's working directory was removed can be helped; every relative path fails there.
int end_by(const std::filesystem::filesystem_error& error) {
  std::error_code gone;
  static_cast<void>(std::filesystem::current_path(gone));
  if (!gone) {
    say(stderr, "error: {}\n", error.what());
    return static_cast<int>(ExitCode::kStorage);
  }
  say(stderr,
      "error: the working directory cannot be used ({}): it may have been removed; change "
      "to one that is "
      "there\n",
      gone.message());
  return static_cast<int>(ExitCode::kInputMissing);
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  ds::ensure_standard_descriptors();
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of the file that reaches it
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    ds::wipe_what_openssl_frees();
    return ds::run(argc, argv);
  } catch (const ds::Error& error) {
    return ds::end_by(error, arguments);
  } catch (const std::filesystem::filesystem_error& error) {
    return ds::end_by(error);
  } catch (const std::system_error& error) {
    if (const auto no_task = ds::no_further_task(error)) return ds::end_by(*no_task, arguments);
    return ds::end_by_bug(error);
  } catch (const std::exception& error) {
    return ds::end_by_bug(error);
  }
}
