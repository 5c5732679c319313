#include "launcher/show/metric_curves.h"

#include <rapidjson/document.h>

#include <limits>

namespace ds {

MetricCurves metric_curves(std::string_view lines) {
  MetricCurves curves;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    rapidjson::Document row;
    row.Parse(line.data(), line.size());
    if (row.HasParseError() || !row.IsObject()) continue;  // a line that is being written
    const auto step = row.FindMember("step");
    if (step == row.MemberEnd() || !step->value.IsNumber()) continue;
    for (const auto& [key, value] : row.GetObject()) {
      if (std::string_view(key.GetString()) == "step" || (!value.IsNumber() && !value.IsNull())) {
        continue;
      }
      const double y =
          value.IsNumber() ? value.GetDouble() : std::numeric_limits<double>::quiet_NaN();
      curves[key.GetString()].push_back({step->value.GetDouble(), y});
    }
  }
  return curves;
}

}  // namespace ds
