#include "launcher/verbs/input_look.h"

#include <fmt/format.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include "config/load.h"
#include "config/origins.h"
#include "launcher/verbs/engine_verb.h"

namespace ds {
namespace {

constexpr std::chrono::seconds kLongestLook{60};

bool is_defect(const rapidjson::Value& item) {
  const auto has = [&](const char* name) { return item.HasMember(name) && item[name].IsString(); };
  return item.IsObject() && item.HasMember("code") && item["code"].IsInt() && has("key") &&
         has("what");
}

}  // namespace

std::optional<std::vector<WrongInput>> parse_look(const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject() || !document.HasMember("defects") ||
      !document["defects"].IsArray()) {
    return std::nullopt;
  }
  std::vector<WrongInput> wrong;
  for (const rapidjson::Value& item : document["defects"].GetArray()) {
    if (!is_defect(item)) return std::nullopt;
    wrong.push_back({static_cast<ExitCode>(item["code"].GetInt()), item["key"].GetString(),
                     item["what"].GetString()});
  }
  return wrong;
}

InputLook look_at_inputs(const std::string& config, const std::vector<std::string>& overrides,
                         const CommandContext& context, int interrupt_fd) {
  const auto not_done = [&](const std::string& why) {
    return InputLook{{},
                     fmt::format("data, tokenizer and model were not looked at: {} {}",
                                 context.rank_program, why)};
  };
  if (access(context.rank_program.c_str(), X_OK) != 0)
    return not_done("is missing; it belongs beside dslaunch");
  std::vector<std::string> arguments = {"--look", config};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  const EngineAnswer answer =
      ask_engine(arguments, context, {.interrupt_fd = interrupt_fd, .longest = kLongestLook});
  if (answer.end == EngineAnswer::End::kTooLate) {
    return not_done(fmt::format("had not done so after {} s", kLongestLook.count()));
  }
  if (answer.end == EngineAnswer::End::kInterrupted) return not_done("was interrupted");
  if (answer.status.signal != 0 || answer.status.code != 0)
    return not_done(describe(answer.status));
  std::optional<std::vector<WrongInput>> wrong = parse_look(answer.text);
  return wrong ? InputLook{std::move(*wrong), {}} : not_done("is of another build");
}

void require_inputs(const RunOptions& options, const CommandContext& context,
                    SignalWatch& signals) {
  const InputLook look = look_at_inputs(options.config, options.overrides, context, signals.fd());
  if (look.not_done) {
    const std::optional<int> signal = signals.take();
    if (signal) throw Error(static_cast<ExitCode>(128 + *signal), "interrupted");
  }
  if (look.wrong.empty()) return;  // and if nobody looked, the ranks will
  const Origins origins = read_config(options.config, options.overrides).origins;
  std::string text;
  for (const WrongInput& wrong : look.wrong) {
    const Problem problem{
        .path = wrong.key, .origin = origin_near(origins, wrong.key), .message = wrong.what};
    text += (text.empty() ? "" : "\n") + problem.text();
  }
  throw Error(look.wrong.front().code, text);
}

}  // namespace ds
