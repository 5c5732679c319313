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

bool has_text(const rapidjson::Value& item, const char* name) {
  return item.HasMember(name) && item[name].IsString();
}

bool is_note(const rapidjson::Value& item) {
  return item.IsObject() && has_text(item, "key") && has_text(item, "what");
}

bool is_defect(const rapidjson::Value& item) {
  return is_note(item) && item.HasMember("code") && item["code"].IsInt();
}

bool has_list(const rapidjson::Value& object, const char* name) {
  return object.HasMember(name) && object[name].IsArray();
}

InputLook ask_for_look(const std::vector<std::string>& question, const CommandContext& context,
                       int interrupt_fd) {
  const auto not_done = [&](const std::string& why) {
    return InputLook{.wrong = {},
                     .noted = {},
                     .not_done = fmt::format("data, tokenizer and model were not looked at: {} {}",
                                             context.rank_program, why)};
  };
  if (access(context.rank_program.c_str(), X_OK) != 0)
    return not_done("is missing; it belongs beside dslaunch");
  const EngineAnswer answer =
      ask_engine(question, context, {.interrupt_fd = interrupt_fd, .longest = kLongestLook});
  if (answer.end == EngineAnswer::End::kTooLate) {
    return not_done(fmt::format("had not done so after {} s", kLongestLook.count()));
  }
  if (answer.end == EngineAnswer::End::kInterrupted) return not_done("was interrupted");
  if (answer.status.signal != 0 || answer.status.code != 0)
    return not_done(describe(answer.status));
  return parse_look(answer.text).value_or(not_done("is of another build"));
}

// If nobody looked, the ranks will; unless it was interrupted.
void throw_if_interrupted(const InputLook& look, SignalWatch& signals) {
  if (!look.not_done) return;
  const std::optional<int> signal = signals.take();
  if (signal) throw Error(static_cast<ExitCode>(128 + *signal), "interrupted");
}

std::string told(const Origins& origins, const std::string& key, const std::string& what) {
  return Problem{.path = key, .origin = origin_near(origins, key), .message = what}.text();
}

std::vector<std::string> notes_in(const InputLook& look, const RunOptions& options) {
  if (look.noted.empty()) return {};
  const Origins origins = read_config(options.config, options.overrides).origins;
  std::vector<std::string> notes;
  for (const NotedInput& noted : look.noted) {
    // The ranks tell it where they load that checkpoint, which they do if the run has none itself.
    if (noted.key == "train.resume_from") continue;
    notes.push_back(told(origins, noted.key, noted.what));
  }
  return notes;
}

}  // namespace

std::optional<InputLook> parse_look(const std::string& json) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject() || !has_list(document, "defects") ||
      !has_list(document, "notes")) {
    return std::nullopt;
  }
  InputLook look;
  for (const rapidjson::Value& item : document["defects"].GetArray()) {
    if (!is_defect(item)) return std::nullopt;
    look.wrong.push_back({static_cast<ExitCode>(item["code"].GetInt()), item["key"].GetString(),
                          item["what"].GetString()});
  }
  for (const rapidjson::Value& item : document["notes"].GetArray()) {
    if (!is_note(item)) return std::nullopt;
    look.noted.push_back({item["key"].GetString(), item["what"].GetString()});
  }
  return look;
}

InputLook look_at_inputs(const std::string& config, const std::vector<std::string>& overrides,
                         const PlannedRun& run, const CommandContext& context, int interrupt_fd) {
  std::vector<std::string> question = {"--look", std::to_string(run.ranks),
                                       run.has_limits ? "limits" : "plan", config};
  question.insert(question.end(), overrides.begin(), overrides.end());
  return ask_for_look(question, context, interrupt_fd);
}

std::vector<std::string> require_inputs(const RunOptions& options, const PlannedRun& run,
                                        const CommandContext& context, SignalWatch& signals) {
  const InputLook look =
      look_at_inputs(options.config, options.overrides, run, context, signals.fd());
  throw_if_interrupted(look, signals);
  if (!look.wrong.empty()) {
    const Origins origins = read_config(options.config, options.overrides).origins;
    std::string text;
    for (const WrongInput& wrong : look.wrong) {
      text += (text.empty() ? "" : "\n") + told(origins, wrong.key, wrong.what);
    }
    throw Error(look.wrong.front().code, text);
  }
  return notes_in(look, options);
}

std::vector<std::string> notes_of_inputs(const RunOptions& options, const CommandContext& context,
                                         SignalWatch& signals) {
  const InputLook look =
      look_at_inputs(options.config, options.overrides, {}, context, signals.fd());
  throw_if_interrupted(look, signals);
  return notes_in(look, options);
}

void require_generation(const std::string& order_file, int ranks, const CommandContext& context,
                        SignalWatch& signals) {
  const InputLook look =
      ask_for_look({"--look-generation", order_file, std::to_string(ranks)}, context, signals.fd());
  throw_if_interrupted(look, signals);
  if (!look.wrong.empty()) throw Error(look.wrong.front().code, look.wrong.front().what);
}

}  // namespace ds
