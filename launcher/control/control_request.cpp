#include "launcher/control/control_request.h"

#include <fmt/ranges.h>
#include <rapidjson/document.h>

#include <array>

#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

// In the order of ControlVerb.
constexpr std::array<std::string_view, 9> kVerbs{"status", "stack", "save",  "stop",      "pause",
                                                 "resume", "join",  "trace", "trace_stop"};

// What a trace is to be, into the request.
void read_trace(const rapidjson::Document& in, ControlRequest& request) {
  const auto steps = in.FindMember("steps");
  if (steps == in.MemberEnd() || !steps->value.IsInt64()) {
    throw DataError("a trace says how many steps: {\"verb\": \"trace\", \"steps\": 3}");
  }
  request.steps = steps->value.GetInt64();
  const auto ranks = in.FindMember("ranks");
  if (ranks == in.MemberEnd() || ranks->value.IsNull()) return;
  if (!ranks->value.IsArray()) throw DataError("a trace's ranks are a list of numbers");
  for (const rapidjson::Value& rank : ranks->value.GetArray()) {
    if (!rank.IsInt()) throw DataError("a trace's ranks are a list of numbers");
    request.ranks.push_back(rank.GetInt());
  }
}

}  // namespace

std::string control_request(ControlVerb verb) {
  return control_request(ControlRequest{.verb = verb});
}

std::string control_request(const ControlRequest& request) {
  JsonObject out;
  out.text("verb", kVerbs.at(static_cast<size_t>(request.verb)));
  if (request.verb == ControlVerb::kTrace) {
    out.integer("steps", request.steps);
    out.raw("ranks", fmt::format("[{}]", fmt::join(request.ranks, ", ")));
  }
  return out.str();
}

ControlVerb control_verb(std::string_view name) {
  const auto* const found = std::ranges::find(kVerbs, name);
  if (found == kVerbs.end()) {
    throw UsageError(fmt::format("no verb '{:.40}': expected {}", name, fmt::join(kVerbs, ", ")));
  }
  return static_cast<ControlVerb>(found - kVerbs.begin());
}

ControlRequest parse_control_request(std::string_view line) {
  rapidjson::Document request;
  request.Parse<rapidjson::kParseIterativeFlag>(line.data(), line.size());
  if (request.HasParseError() || !request.IsObject()) {
    throw DataError("a request is one line of JSON such as {\"verb\": \"status\"}");
  }
  const auto verb = request.FindMember("verb");
  if (verb == request.MemberEnd() || !verb->value.IsString()) {
    throw DataError("a request names its verb: {\"verb\": \"status\"}");
  }
  ControlRequest out{.verb =
                         control_verb({verb->value.GetString(), verb->value.GetStringLength()})};
  if (out.verb == ControlVerb::kTrace) read_trace(request, out);
  return out;
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
