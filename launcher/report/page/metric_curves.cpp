#include "launcher/report/page/metric_curves.h"

#include <rapidjson/document.h>

#include <limits>

#include "core/values/step_metrics.h"

namespace ds {

void MetricLines::Curve::add(const PlotPoint& point) {
  if (steps++ == 0) first = point;
  last = point;
  sum.x += point.x / static_cast<double>(steps_each);
  sum.y += point.y / static_cast<double>(steps_each);
  if (++summed < steps_each) return;
  means.push_back(sum);
  sum = {0, 0};
  summed = 0;
  if (means.size() < kMostPoints) return;
  for (size_t i = 0; i < means.size() / 2; ++i) {
    const PlotPoint& one = means[2 * i];
    const PlotPoint& other = means[2 * i + 1];
    means[i] = {one.x / 2 + other.x / 2, one.y / 2 + other.y / 2};
  }
  means.resize(means.size() / 2);
  steps_each *= 2;
}

std::vector<PlotPoint> MetricLines::Curve::points() const {
  if (steps_each == 1) return means;
  std::vector<PlotPoint> out{first};
  out.insert(out.end(), means.begin(), means.end());
  out.push_back(last);
  return out;
}

void MetricLines::add(std::string_view line) {
  rapidjson::Document row;
  row.Parse<rapidjson::kParseIterativeFlag>(line.data(), line.size());  // depth costs no stack
  if (row.HasParseError() || !row.IsObject()) return;
  const auto step = row.FindMember("step");
  if (step == row.MemberEnd() || !step->value.IsNumber()) return;
  for (const auto& [key, value] : row.GetObject()) {
    const std::string_view name(key.GetString(), key.GetStringLength());
    if (find_metric_row(name) == nullptr || (!value.IsNumber() && !value.IsNull())) continue;
    const double y =
        value.IsNumber() ? value.GetDouble() : std::numeric_limits<double>::quiet_NaN();
    curves_[std::string(name)].add({step->value.GetDouble(), y});
  }
}

MetricCurves MetricLines::finish() const {
  MetricCurves out;
  for (const auto& [name, curve] : curves_) out[name] = curve.points();
  return out;
}

MetricCurves metric_curves(std::string_view lines) {
  MetricLines out;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    out.add(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
  return out.finish();
}

}  // namespace ds
