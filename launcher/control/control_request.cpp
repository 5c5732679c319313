#include "launcher/control/control_request.h"

#include <rapidjson/document.h>

#include <array>

#include "core/error.h"
#include "launcher/decide/json_text.h"

namespace ds {
namespace {

// In the order of ControlVerb.
constexpr std::array<std::string_view, 7> kVerbs{"status", "stack",  "save", "stop",
                                                 "pause",  "resume", "join"};

}  // namespace

std::string control_request(ControlVerb verb) {
  return JsonObject().text("verb", kVerbs.at(static_cast<size_t>(verb))).str();
}

ControlVerb control_verb(std::string_view name) {
  const auto* const found = std::ranges::find(kVerbs, name);
  if (found == kVerbs.end()) {
    throw UsageError(fmt::format("no verb '{:.40}': expected {}", name, fmt::join(kVerbs, ", ")));
  }
  return static_cast<ControlVerb>(found - kVerbs.begin());
}

ControlVerb parse_control_request(std::string_view line) {
  rapidjson::Document request;
  request.Parse<rapidjson::kParseIterativeFlag>(line.data(), line.size());
  if (request.HasParseError() || !request.IsObject()) {
    throw DataError("a request is one line of JSON such as {\"verb\": \"status\"}");
  }
  const auto verb = request.FindMember("verb");
  if (verb == request.MemberEnd() || !verb->value.IsString()) {
    throw DataError("a request names its verb: {\"verb\": \"status\"}");
  }
  return control_verb({verb->value.GetString(), verb->value.GetStringLength()});
}

std::string control_reply(std::string_view notice, const RunStatus& status) {
  return JsonObject()
      .raw("ok", "true")
      .text("notice", notice)
      .raw("status", status_json(status))
      .str();
}

std::string control_refusal(std::string_view error) {
  return JsonObject().raw("ok", "false").text("error", error).str();
}

}  // namespace ds
