#include "launcher/report/page/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "cli/text/line_plot.h"
#include "cli/text/markup_text.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/step_metrics.h"
#include "launcher/report/page/json_read.h"
#include "launcher/report/page/run_setup.h"
#include "launcher/report/plot.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

class Table {
 public:
  Table(std::string_view caption, const std::vector<std::string>& heads,
        std::string_view kind = "numbers") {
    out_ = fmt::format("<div class=\"{}\"><table>\n<caption>{}</caption>\n<thead><tr>", kind,
                       markup_text(caption));
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
  std::string finish() const { return rows_ == 0 ? "" : out_ + "</tbody>\n</table></div>\n"; }

 private:
  std::string out_;
  int rows_ = 0;
};

constexpr std::string_view kUnknown = "-";

struct Figure {
  std::string_view title;
  std::vector<std::pair<std::string, std::string_view>> shown;  // metrics, and what they are called
  std::optional<PlotTicks> y_ticks{};
};

std::string in_grid(std::string_view name, const std::string& content) {
  return fmt::format("<div class=\"{}\">\n{}</div>\n", name, content);
}

std::string figure(const MetricCurves& curves, const Figure& wanted) {
  const auto& [title, shown, y_ticks] = wanted;
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
  const auto generations = curves.find("generation");
  const std::vector<PlotMark> restarts =
      generations == curves.end() ? std::vector<PlotMark>{} : restart_marks(generations->second);
  if (!restarts.empty()) {
    constexpr size_t kMost = 8;
    said += restarts.size() == 1 ? "; restart at step " : "; restarts at steps ";
    for (size_t i = 0; i < std::min(kMost, restarts.size()); ++i)
      said += fmt::format("{}{:.0f}", i == 0 ? "" : ", ", restarts[i].x);
    if (restarts.size() > kMost) said += fmt::format(" and {} more", restarts.size() - kMost);
  }
  return fmt::format(
      "<figure>\n<div role=\"img\" aria-label=\"{0}. {1}\">\n{2}</div>\n"
      "<figcaption>{1}</figcaption>\n</figure>\n",
      markup_text(title), markup_text(said),
      line_plot({.title = title,
                 .x_name = "step",
                 .curves = lines,
                 .y_ticks = y_ticks,
                 .marks = restarts}));
}

std::string bytes_text(std::optional<double> bytes) {
  return bytes ? format_bytes(whole_value(*bytes)) : std::string(kUnknown);
}

std::string whole_text(std::optional<double> value) {
  return value ? fmt::format("{:.0f}", *value) : std::string(kUnknown);
}

std::string seconds_text(std::optional<double> value) {
  return value ? fmt::format("{:.4g}", *value) : std::string(kUnknown);
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
  for (const auto& [key, words] : kSpent) all += number_in(*spent, key).value_or(0);
  Table table("Where the time went", {"what", "seconds", "share"});
  for (const auto& [key, words] : kSpent) {
    const std::optional<double> seconds = number_in(*spent, key);
    if (!seconds) continue;
    table.row({std::string(words), fmt::format("{:.2f}", *seconds),
               fmt::format("{:.1f} %", all > 0 ? 100 * *seconds / all : 0)});
  }
  return table.finish();
}

// The slowest first.
std::string ranks_table(const Json& report) {
  const Json* ranks = member(report, "ranks");
  if (ranks == nullptr || !ranks->IsArray()) return "";
  struct Row {
    int64_t rank = 0;
    std::optional<double> seconds{};
    const Json* value = nullptr;
  };
  std::vector<Row> rows;
  for (const Json& rank : ranks->GetArray()) {
    const Json* measured = member(rank, "results");
    rows.push_back({whole_value(number_in(rank, "rank").value_or(0)),
                    measured ? number_in(*measured, "seconds_per_step") : std::nullopt, &rank});
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &Row::seconds);
  constexpr size_t kMost = 32;
  Table table(rows.size() > kMost ? fmt::format("The {} slowest of {} ranks", kMost, rows.size())
                                  : "Ranks, the slowest first",
              {"rank", "seconds per step", "peak of the device", "peak of the host",
               "peak of resident memory"});
  for (size_t i = 0; i < std::min(kMost, rows.size()); ++i) {
    table.row({std::to_string(rows[i].rank), seconds_text(rows[i].seconds),
               bytes_text(number_in(*rows[i].value, "device_bytes_peak")),
               bytes_text(number_in(*rows[i].value, "host_bytes_peak")),
               bytes_text(number_in(*rows[i].value, "rss_bytes_peak"))});
  }
  return table.finish();
}

std::string epochs_table(const Json& report) {
  const Json* epochs = member(report, "generations");
  if (epochs == nullptr) epochs = member(report, "epochs");  // of earlier versions
  if (epochs == nullptr || !epochs->IsArray()) return "";
  Table table("Generations of the world", {"generation", "ranks", "last step", "why it ended"});
  for (const Json& epoch : epochs->GetArray()) {
    table.row({whole_text(number_in(epoch, member(epoch, "generation") ? "generation" : "epoch")),
               whole_text(number_in(epoch, "world_size")), whole_text(number_in(epoch, "steps")),
               text_in(epoch, "reason")});
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
  for (const auto& [key, name] :
       {std::pair("device_bytes_peak", "peak of the device"),
        std::pair("host_bytes_peak", "peak of the host"), std::pair("nvme_bytes", "on NVMe")}) {
    const auto was = number_in(*measured, key);
    const auto expected = number_in(*planned, key);
    if (was || expected) table.row({name, bytes_text(expected), bytes_text(was)});
  }
  const Json* results = member(*measured, "results");
  const auto seconds = number_in(plan, "seconds_per_step");
  const auto took = results ? number_in(*results, "seconds_per_step") : std::nullopt;
  if (seconds && took) {
    table.row({"seconds per step", fmt::format("{:.4g}", *seconds), fmt::format("{:.4g}", *took)});
  }
  return table.finish();
}

// Describes the first bad number of a step that was not finite; empty if the report has none.
std::string bad_number(const Json& report) {
  const Json* bad = member(report, "first_bad_number");
  if (bad == nullptr) return "";
  Table table("The first bad number", {"what", "where"});
  for (const char* key : {"tensor", "module", "pass", "value", "element", "shape"}) {
    if (const std::string said = text_in(*bad, key); !said.empty()) table.row({key, said});
  }
  for (const auto& [key, name] : {std::pair("step", "step"), std::pair("rank", "rank"),
                                  std::pair("micro_step", "micro-step")}) {
    if (const auto value = number_in(*bad, key)) table.row({name, fmt::format("{:.0f}", *value)});
  }
  return fmt::format("<h2>The first bad number</h2>\n<p>{}</p>\n{}",
                     markup_text(text_in(*bad, "words")), table.finish());
}

// As wide as the window: figures and tables lie beside each other where there is room. Paths have
// no place to break at, so that they may break anywhere.
constexpr std::string_view kStyle =
    "body{font-family:sans-serif;margin:2rem auto;padding:0 1.5rem;color:#1f2328;background:#fff}"
    ".figures,.tables{display:grid;gap:0 2rem;align-items:start;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,34rem),1fr))}"
    "table{border-collapse:collapse;margin:1rem 0}caption{text-align:left;"
    "font-weight:bold;padding:.3rem 0}th,td{border:1px solid #d0d7de;padding:.3rem .6rem;"
    "text-align:right}th[scope=row],thead th:first-child{text-align:left}"
    ".words td,.words thead th{text-align:left;overflow-wrap:anywhere}figure{margin:1rem 0}"
    "svg{width:100%;height:auto}figcaption{color:#57606a}"
    "h1,p{overflow-wrap:anywhere}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    "@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}"
    "th,td{border-color:#30363d}figcaption{color:#9da7b1}.paper{fill:#0d1117}"
    "svg text{fill:#e6edf3}.grid{stroke:#30363d}.mark{stroke:#9da7b1}"
    "[stroke='#1f6feb']{stroke:#58a6ff}[stroke='#d1242f']{stroke:#ff7b72}}";

std::string headline(const Json& report) {
  if (!report.HasMember("exit_code")) return "<p>The run goes on, or was killed.</p>\n";
  std::string out =
      fmt::format("<p>Ended with exit code {}", whole_text(number_in(report, "exit_code")));
  if (const std::string why = text_in(report, "reason"); !why.empty())
    out += fmt::format(" ({})", markup_text(why));
  if (const auto seconds = number_in(report, "seconds"))
    out += fmt::format(" after {:.1f} s", *seconds);
  if (const auto steps = number_in(report, "steps")) out += fmt::format(" at step {:.0f}", *steps);
  if (const auto restarts = number_in(report, "restarts"))
    out += fmt::format(" with {:.0f} restart{}", *restarts, *restarts == 1 ? "" : "s");
  out += ".";
  const Json* const spent = member(report, "goodput");
  if (const auto share = spent != nullptr ? number_in(*spent, "share") : std::nullopt)
    out += fmt::format(" {:.1f} % of the time trained steps that stand.", 100 * *share);
  return out + "</p>\n";
}

std::string setup(const Json& config, const Json& plan) {
  Table table("What is trained", {"what", "as configured and planned"}, "words");
  for (const auto& [what, said] : run_setup(config, plan)) table.row({what, said});
  const std::string rows = table.finish();
  return rows.empty() ? "" : "<h2>Setup</h2>\n" + rows;
}

std::string curves(const MetricCurves& metrics) {
  std::string out;
  for (const Figure& wanted : {
           Figure{"loss", {{"loss", "training"}, {"validation_loss", "validation"}}},
           Figure{"tokens per second", {{"tokens_per_s", "tokens per second"}}, PlotTicks::kReal},
           Figure{"gradient norm", {{"grad_norm", "gradient norm"}}},
           Figure{"learning rate", {{"lr", "learning rate"}}},
       })
    out += figure(metrics, wanted);
  return out.empty() ? "<p>No step has been trained yet.</p>\n" : in_grid("figures", out);
}

}  // namespace

std::string report_page(const RunFiles& files) {
  const rapidjson::Document report =
      parsed_object(files.report.empty() ? "{}" : files.report, "report.json");
  const rapidjson::Document config =
      parsed_object(files.config.empty() ? "{}" : files.config, "config.json");
  const rapidjson::Document plan =
      parsed_object(files.plan.empty() ? "{}" : files.plan, "plan.json");
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      markup_text(files.name), kStyle);
  out += headline(report);
  out += bad_number(report);
  out += setup(config, plan);
  out += "<h2>Training</h2>\n" + curves(files.metrics);
  const std::string time = goodput(report) + ranks_table(report) + plan_table(plan, report);
  if (!time.empty()) out += "<h2>Time and memory</h2>\n" + in_grid("tables", time);
  const std::string epochs = epochs_table(report);
  if (!epochs.empty()) out += "<h2>Restarts</h2>\n" + epochs;
  if (!files.config.empty()) {
    out += fmt::format(
        "<h2>Configuration</h2>\n<details>\n<summary>All keys, with their defaults</summary>\n"
        "<pre>{}</pre>\n</details>\n",
        markup_text(files.config));
  }
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace ds
