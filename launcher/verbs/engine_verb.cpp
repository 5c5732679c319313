#include "launcher/verbs/engine_verb.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/process/process.h"

namespace ds {

namespace {

// Returns the value of an option, given as "--name=value" or in two words; nothing if it is not.
std::optional<std::string> value_of(const std::vector<std::string>& arguments,
                                    const std::string& option) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(option + "=")) return arguments[i].substr(option.size() + 1);
    if (arguments[i] == option) return i + 1 < arguments.size() ? arguments[i + 1] : "";
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> completed_arguments(std::vector<std::string> arguments,
                                             const char* visible_gpus) {
  if (arguments.front() != "plan") return arguments;
  Machine machine = this_machine(visible_gpus);
  std::optional<std::string> device = value_of(arguments, "--device");
  if (!device && machine.gpus > 0) {
    device = "cuda";
    arguments.emplace_back("--device=cuda");
  }
  if (!value_of(arguments, "--num-ranks")) {
    if (device != "cuda") machine.gpus = 0;
    const bool elsewhere = device == "cuda" && machine.gpus == 0;
    const int ranks = elsewhere ? 1 : choose_shape(machine, std::nullopt, std::nullopt).ranks;
    arguments.push_back(fmt::format("--num-ranks={}", ranks));
  }
  return arguments;
}

namespace {

// Until `fd` can be read.
EngineAnswer::End wait_for(int fd, const AskLimits& limits,
                           std::chrono::steady_clock::time_point started) {
  using std::chrono::milliseconds;
  std::array<pollfd, 2> waited{
      {{fd, POLLIN, 0}, {limits.interrupt_fd, POLLIN, 0}}};  // a negative one is passed over
  while (true) {
    int left = -1;
    if (limits.longest) {
      const auto passed =
          std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - started);
      left = static_cast<int>(std::max(milliseconds::zero(), *limits.longest - passed).count());
    }
    const int ready = poll(waited.data(), waited.size(), left);
    if (ready < 0 && errno == EINTR) continue;
    if (waited[1].revents != 0) return EngineAnswer::End::kInterrupted;
    return ready == 0 ? EngineAnswer::End::kTooLate : EngineAnswer::End::kItsOwn;
  }
}

}  // namespace

EngineAnswer ask_engine(const std::vector<std::string>& arguments, const CommandContext& context,
                        const AskLimits& limits) {
  const auto started = std::chrono::steady_clock::now();
  PipeEnds output = make_pipe();
  const Fd input = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd errors = duplicate_high(STDERR_FILENO);
  SpawnOptions spawn;
  spawn.program = context.rank_program;
  spawn.arguments = {"--answer", std::to_string(getpid())};
  spawn.arguments.insert(spawn.arguments.end(), arguments.begin(), arguments.end());
  spawn.environment = context.environment;
  spawn.descriptors = {{STDIN_FILENO, input.get()},
                       {STDOUT_FILENO, output.write.get()},
                       {STDERR_FILENO, errors.get()}};
  Process process(spawn);
  output.write = Fd();
  EngineAnswer answer;
  std::array<char, 16384> bytes{};
  while (true) {
    answer.end = wait_for(output.read.get(), limits, started);
    if (answer.end != EngineAnswer::End::kItsOwn) process.signal_group(SIGKILL);
    const ssize_t got = read(output.read.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || answer.end != EngineAnswer::End::kItsOwn) break;
    answer.text.append(bytes.data(), to_size(got));
  }
  answer.status = process.wait();
  return answer;
}

EngineVerb plan_verb(const RunOptions& options, const WorldShape& shape, Device device) {
  EngineVerb verb{{"plan", options.config}};
  verb.arguments.insert(verb.arguments.end(), options.overrides.begin(), options.overrides.end());
  verb.arguments.push_back(fmt::format("--num-ranks={}", shape.ranks));
  verb.arguments.push_back(fmt::format("--num-threads={}", shape.threads));
  const bool on_gpus = device.kind == Device::Kind::kCuda;
  verb.arguments.push_back(fmt::format("--device={}", on_gpus ? "cuda" : "cpu"));
  return verb;
}

std::string installed_engine(const std::filesystem::path& own_program) {
  const std::filesystem::path folder = own_program.parent_path();
  const std::filesystem::path installed = folder.parent_path() / "libexec/dslaunch/rankd";
  std::error_code unreadable;
  const std::filesystem::path beside = folder / "rankd";
  return (!std::filesystem::exists(beside, unreadable) &&
                  std::filesystem::exists(installed, unreadable)
              ? installed
              : beside)
      .string();
}

std::string engine_output(const std::vector<std::string>& arguments, const CommandContext& context,
                          std::string_view why) {
  EngineAnswer answer = ask_engine(arguments, context);
  const ExitStatus& status = answer.status;
  if (status.signal != 0 || status.code != 0) {
    throw Error(status.signal == 0 ? static_cast<ExitCode>(status.code) : ExitCode::kInternal,
                fmt::format("{}: rankd {}", why, describe(status)));
  }
  return std::move(answer.text);
}

void become_engine(const EngineVerb& verb, const CommandContext& context) {
  std::vector<std::string> strings = completed_arguments(verb.arguments, context.visible_gpus);
  strings.insert(strings.begin(), context.rank_program);
  std::vector<char*> arguments;
  for (std::string& s : strings) {
    arguments.push_back(s.data());
  }
  arguments.push_back(nullptr);
  execv(context.rank_program.c_str(), arguments.data());
  throw InputMissing(
      fmt::format("starting {}: {}; it belongs beside dslaunch or into ../libexec/dslaunch",
                  context.rank_program, std::strerror(errno)));
}

}  // namespace ds
