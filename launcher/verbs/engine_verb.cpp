#include "launcher/verbs/engine_verb.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "launcher/machine.h"
#include "launcher/process.h"

namespace ds {

std::vector<std::string> completed_arguments(std::vector<std::string> arguments,
                                             const char* visible_gpus) {
  constexpr std::string_view kRanks = "--num-ranks";
  const bool given = std::ranges::any_of(
      arguments, [&](const std::string& argument) { return argument.starts_with(kRanks); });
  if (arguments.front() == "plan" && !given) {
    const WorldShape shape = choose_shape(this_machine(visible_gpus), std::nullopt, std::nullopt);
    arguments.push_back(fmt::format("{}={}", kRanks, shape.ranks));
  }
  return arguments;
}

EngineAnswer ask_engine(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  PipeEnds output = make_pipe();
  const Fd input = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd errors = duplicate_high(STDERR_FILENO);
  SpawnOptions spawn;
  spawn.program = surroundings.rank_program;
  spawn.arguments = {"--answer", std::to_string(getpid())};
  spawn.arguments.insert(spawn.arguments.end(), arguments.begin(), arguments.end());
  spawn.environment = surroundings.environment;
  spawn.descriptors = {{STDIN_FILENO, input.get()},
                       {STDOUT_FILENO, output.write.get()},
                       {STDERR_FILENO, errors.get()}};
  Process process(spawn);
  output.write = Fd();
  std::string text;
  std::array<char, 16384> bytes{};
  for (ssize_t got = 0; (got = read(output.read.get(), bytes.data(), bytes.size())) != 0;) {
    if (got < 0 && errno != EINTR) break;
    text.append(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0);
  }
  return {process.wait(), std::move(text)};
}

EngineVerb plan_verb(const RunOptions& options, int ranks, int threads) {
  EngineVerb verb{{"plan", options.config}};
  verb.arguments.insert(verb.arguments.end(), options.overrides.begin(), options.overrides.end());
  verb.arguments.push_back(fmt::format("--num-ranks={}", ranks));
  verb.arguments.push_back(fmt::format("--num-threads={}", threads));
  return verb;
}

std::string installed_engine(const std::filesystem::path& own_program) {
  const std::filesystem::path folder = own_program.parent_path();
  const std::filesystem::path installed = folder.parent_path() / "libexec/dslaunch/rankd";
  std::error_code unreadable;
  const std::filesystem::path beside = folder / "rankd";
  return (!std::filesystem::exists(beside, unreadable) && std::filesystem::exists(installed, unreadable) ? installed
                                                                                                          : beside)
      .string();
}

std::string engine_output(const std::vector<std::string>& arguments, const Surroundings& surroundings,
                          std::string_view why) {
  EngineAnswer answer = ask_engine(arguments, surroundings);
  const ExitStatus& status = answer.status;
  if (status.signal != 0 || status.code != 0) {
    throw Error(status.signal == 0 ? static_cast<ExitCode>(status.code) : ExitCode::kInternal,
                fmt::format("{}: rankd {}", why, describe(status)));
  }
  return std::move(answer.text);
}

void become_engine(const EngineVerb& verb, const Surroundings& surroundings) {
  std::vector<std::string> strings = completed_arguments(verb.arguments, surroundings.visible_gpus);
  strings.insert(strings.begin(), surroundings.rank_program);
  std::vector<char*> arguments;
  for (std::string& s : strings) {
    arguments.push_back(s.data());
  }
  arguments.push_back(nullptr);
  execv(surroundings.rank_program.c_str(), arguments.data());
  throw InputMissing(fmt::format("starting {}: {}; it belongs beside dslaunch or into ../libexec/dslaunch",
                                 surroundings.rank_program, std::strerror(errno)));
}

}  // namespace ds
