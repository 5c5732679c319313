// Renders a template of a test, with a clock that stands still.
#pragma once

#include <rapidjson/document.h>

#include <string>
#include <string_view>

#include "core/status/error.h"
#include "data/chat/template.h"

namespace ds::testing {

inline std::tm morning() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 7;
  time.tm_wday = 5;
  time.tm_yday = 207;
  return time;
}

inline rapidjson::Document json_of(std::string_view text) {
  rapidjson::Document out;
  out.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  return out;
}

inline RenderedChat render(std::string_view source, std::string_view variables = "{}",
                           const RenderLimits& limits = {}) {
  return ChatTemplate::parse(source, "t").render(json_of(variables), morning, limits);
}

inline std::string text(std::string_view source, std::string_view variables = "{}") {
  return render(source, variables).text;
}

// The message of the error that it ends in; empty for none.
inline std::string error(std::string_view source, std::string_view variables = "{}",
                         const RenderLimits& limits = {}) {
  try {
    render(source, variables, limits);
    return "";
  } catch (const Error& failed) {
    return failed.what();
  }
}

}  // namespace ds::testing
