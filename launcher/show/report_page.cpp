#include "launcher/show/report_page.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "cli/line_plot.h"
#include "cli/markup_text.h"
#include "core/error.h"
#include "core/index.h"
#include "core/step_metrics.h"
#include "launcher/show/plot.h"
#include "launcher/show/progress.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

rapidjson::Document parsed(std::string_view text, std::string_view name) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());  // depth costs no stack
  if (document.HasParseError() || !document.IsObject()) {
    throw DataError(fmt::format("{}: this is no JSON object", name));
  }
  return document;
}

const Json* member(const Json& object, const char* name) {
  if (!object.IsObject()) return nullptr;
  const auto found = object.FindMember(name);
  return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
}

std::optional<double> number(const Json& object, const char* name) {
  const Json* value = member(object, name);
  return value != nullptr && value->IsNumber() ? std::optional(value->GetDouble()) : std::nullopt;
}

std::string text(const Json& object, const char* name) {
  const Json* value = member(object, name);
  return value != nullptr && value->IsString() ? value->GetString() : "";
}

class Table {
 public:
  Table(std::string_view caption, const std::vector<std::string>& heads) {
    out_ = fmt::format("<table>\n<caption>{}</caption>\n<thead><tr>", markup_text(caption));
    for (const std::string& head : heads) {
      out_ += fmt::format("<th scope=\"col\">{}</th>", markup_text(head));
    }
    out_ += "</tr></thead>\n<tbody>\n";
  }
  void row(const std::vector<std::string>& cells) {
    out_ += fmt::format("<tr><th scope=\"row\">{}</th>", markup_text(cells.front()));
    for (size_t i = 1; i < cells.size(); ++i)
      out_ += fmt::format("<td>{}</td>", markup_text(cells[i]));
    out_ += "</tr>\n";
    ++rows_;
  }
  std::string finish() const { return rows_ == 0 ? "" : out_ + "</tbody>\n</table>\n"; }

 private:
  std::string out_;
  int rows_ = 0;
};

std::string figure(const MetricCurves& curves, std::string_view title,
                   const std::vector<std::pair<std::string, std::string_view>>& shown) {
  std::vector<PlotCurve> lines;
  std::string said;
  constexpr std::array<std::string_view, 2> kColours = {kBlue, kRed};
  for (const auto& [metric, name] : shown) {
    const auto found = curves.find(metric);
    if (found == curves.end()) continue;
    lines.push_back({name, kColours[lines.size() % kColours.size()], thinned(found->second)});
    const PlotPoint& first = found->second.front();
    const PlotPoint& last = found->second.back();
    said += fmt::format("{}{}: {:.5g} at step {:.0f}, {:.5g} at step {:.0f}",
                        said.empty() ? "" : "; ", name, first.y, first.x, last.y, last.x);
  }
  if (lines.empty()) return "";
  return fmt::format(
      "<figure>\n<div role=\"img\" aria-label=\"{0}. {1}\">\n{2}</div>\n"
      "<figcaption>{1}</figcaption>\n</figure>\n",
      markup_text(title), markup_text(said), line_plot(title, "step", lines));
}

std::string bytes_text(std::optional<double> bytes) {
  return bytes ? format_bytes(whole_value(*bytes)) : "";
}

constexpr std::array<std::pair<const char*, std::string_view>, 7> kSpent = {
    {{"productive_s", "steps that stand"},
     {"lost_s", "steps trained again"},
     {"evaluation_s", "evaluation"},
     {"checkpoint_s", "checkpoints"},
     {"waiting_s", "paused"},
     {"starting_s", "ranks starting"},
     {"other_s", "launcher, faults, the end"}}};

std::string goodput(const Json& report) {
  const Json* spent = member(report, "goodput");
  if (spent == nullptr) return "";
  double all = 0;
  for (const auto& [key, words] : kSpent) all += number(*spent, key).value_or(0);
  Table table("Where the time went", {"what", "seconds", "share"});
  for (const auto& [key, words] : kSpent) {
    const double seconds = number(*spent, key).value_or(0);
    table.row({std::string(words), fmt::format("{:.2f}", seconds),
               fmt::format("{:.1f} %", all > 0 ? 100 * seconds / all : 0)});
  }
  return table.finish();
}

// The slowest first.
std::string ranks_table(const Json& report) {
  const Json* ranks = member(report, "ranks");
  if (ranks == nullptr || !ranks->IsArray()) return "";
  struct Row {
    int64_t rank = 0;
    double seconds = 0;
    const Json* value = nullptr;
  };
  std::vector<Row> rows;
  for (const Json& rank : ranks->GetArray()) {
    const Json* measured = member(rank, "results");
    rows.push_back({whole_value(number(rank, "rank").value_or(0)),
                    measured ? number(*measured, "seconds_per_step").value_or(0) : 0, &rank});
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &Row::seconds);
  constexpr size_t kMost = 32;
  Table table(rows.size() > kMost ? fmt::format("The {} slowest of {} ranks", kMost, rows.size())
                                  : "Ranks, the slowest first",
              {"rank", "seconds per step", "peak of the device", "peak of the host"});
  for (size_t i = 0; i < std::min(kMost, rows.size()); ++i) {
    table.row({std::to_string(rows[i].rank), fmt::format("{:.4g}", rows[i].seconds),
               bytes_text(number(*rows[i].value, "device_bytes_peak")),
               bytes_text(number(*rows[i].value, "host_bytes_peak"))});
  }
  return table.finish();
}

std::string epochs_table(const Json& report) {
  const Json* epochs = member(report, "epochs");
  if (epochs == nullptr || !epochs->IsArray()) return "";
  Table table("Epochs of the world", {"epoch", "ranks", "last step", "why it ended"});
  for (const Json& epoch : epochs->GetArray()) {
    table.row({fmt::format("{:.0f}", number(epoch, "epoch").value_or(0)),
               fmt::format("{:.0f}", number(epoch, "world_size").value_or(0)),
               fmt::format("{:.0f}", number(epoch, "steps").value_or(0)), text(epoch, "reason")});
  }
  return table.finish();
}

const Json* first_rank(const Json& object) {
  const Json* ranks = member(object, "ranks");
  return ranks != nullptr && ranks->IsArray() && !ranks->Empty() ? &(*ranks)[0] : nullptr;
}

std::string plan_table(const Json& plan, const Json& report) {
  const Json* planned = first_rank(plan);
  const Json* measured = first_rank(report);
  if (planned == nullptr || measured == nullptr) return "";
  Table table("Plan and measurement, rank 0", {"what", "planned", "measured"});
  for (const char* key : {"device_bytes_peak", "host_bytes_peak", "nvme_bytes"}) {
    const auto was = number(*measured, key);
    const auto expected = number(*planned, key);
    if (was || expected) table.row({key, bytes_text(expected), bytes_text(was)});
  }
  const Json* results = member(*measured, "results");
  const auto seconds = number(plan, "seconds_per_step");
  const auto took = results ? number(*results, "seconds_per_step") : std::nullopt;
  if (seconds && took) {
    table.row({"seconds per step", fmt::format("{:.4g}", *seconds), fmt::format("{:.4g}", *took)});
  }
  return table.finish();
}

// Of a step that was not finite.
std::string bad_number(const Json& report) {
  const Json* bad = member(report, "first_bad_number");
  if (bad == nullptr) return "";
  Table table("The first bad number", {"what", "where"});
  for (const char* key : {"tensor", "module", "pass", "value", "element", "shape"}) {
    if (const std::string said = text(*bad, key); !said.empty()) table.row({key, said});
  }
  for (const auto& [key, name] : {std::pair("step", "step"), std::pair("rank", "rank"),
                                  std::pair("micro_step", "micro-step")}) {
    if (const auto value = number(*bad, key)) table.row({name, fmt::format("{:.0f}", *value)});
  }
  return fmt::format("<h2>The first bad number</h2>\n<p>{}</p>\n{}",
                     markup_text(text(*bad, "words")), table.finish());
}

constexpr std::string_view kStyle =
    "body{font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2328;"
    "background:#fff}table{border-collapse:collapse;margin:1rem 0}caption{text-align:left;"
    "font-weight:bold;padding:.3rem 0}th,td{border:1px solid #d0d7de;padding:.3rem .6rem;"
    "text-align:right}th[scope=row],thead th:first-child{text-align:left}figure{margin:1rem 0}"
    "svg{max-width:100%;height:auto}figcaption{color:#57606a}"
    "h1,p{overflow-wrap:anywhere}";  // paths have no place to break at

std::string headline(const Json& report) {
  if (!report.HasMember("exit_code")) return "<p>The run goes on, or was killed.</p>\n";
  return fmt::format(
      "<p>Ended with exit code {:.0f}{} after {:.1f} s, {:.0f} steps and {:.0f} "
      "restarts. {:.1f} % of the time trained steps that stand.</p>\n",
      number(report, "exit_code").value_or(0),
      text(report, "reason").empty() ? "" : " (" + markup_text(text(report, "reason")) + ")",
      number(report, "seconds").value_or(0), number(report, "steps").value_or(0),
      number(report, "restarts").value_or(0),
      100 * (member(report, "goodput") ? number(*member(report, "goodput"), "share").value_or(0)
                                       : 0));
}

}  // namespace

std::string report_page(const RunFiles& files) {
  const rapidjson::Document report =
      parsed(files.report.empty() ? "{}" : files.report, "report.json");
  const rapidjson::Document plan = parsed(files.plan.empty() ? "{}" : files.plan, "plan.json");
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      markup_text(files.name), kStyle);
  out += headline(report);
  out += bad_number(report);
  out += "<h2>Training</h2>\n";
  const std::string loss =
      figure(files.metrics, "loss", {{"loss", "training"}, {"validation_loss", "validation"}});
  out += loss.empty() ? "<p>No step has been trained yet.</p>\n" : loss;
  out += figure(files.metrics, "tokens per second", {{"tokens_per_s", "tokens per second"}});
  out += figure(files.metrics, "gradient norm", {{"grad_norm", "gradient norm"}});
  out += figure(files.metrics, "learning rate", {{"lr", "learning rate"}});
  const std::string time = goodput(report) + ranks_table(report);
  if (!time.empty()) out += "<h2>Time and memory</h2>\n" + time;
  out += plan_table(plan, report);
  const std::string epochs = epochs_table(report);
  if (!epochs.empty()) out += "<h2>Restarts</h2>\n" + epochs;
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace ds
