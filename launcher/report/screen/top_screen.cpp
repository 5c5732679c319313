#include "launcher/report/screen/top_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/text/terminal_text.h"
#include "launcher/report/progress.h"
#include "launcher/report/screen/bars.h"
#include "launcher/report/screen/rank_table.h"
#include "launcher/report/status_text.h"

namespace ds {
namespace {

// A section is shown as a whole, or not at all.
enum class Place { kAboveTable, kBelowTable };
struct Section {
  int importance;  // of two for which there is no room, the larger stays
  std::vector<ScreenLine> lines{};
  Place place = Place::kAboveTable;
};
constexpr int kNeverLeftOut = 8;

ScreenLine title_line(const RunStatus& status, const ScreenLook& look) {
  constexpr std::string_view kRun = "run ";
  std::string config = status.config.empty() ? "" : fmt::format(" ({})", one_line(status.config));
  if (columns_of(config) > look.columns / 3) config.clear();
  const size_t taken = kRun.size() + columns_of(config);
  ScreenLine line(fitting(kRun, look.columns));
  line.add(without_beginning(status.run_dir, look.columns - std::min(look.columns, taken), look),
           Ink::kBold);
  line.add(config);
  return line;
}

Ink ink_of(const std::string& phase) {
  if (phase == "running" || phase == "done") return Ink::kGood;
  return phase == "failed" || phase == "killed" ? Ink::kBad : Ink::kWarning;
}

std::vector<ScreenLine> headline(const RunStatus& status, const ScreenLook& look) {
  std::vector<ScreenLine> lines;
  for (const std::string& text : wrapped(headline_text(status), 2, look)) {
    const bool begins = lines.empty() && text.starts_with(status.phase);
    const size_t phase = begins ? status.phase.size() : 0;
    lines.emplace_back(text.substr(0, phase), ink_of(status.phase));
    lines.back().add(text.substr(phase));
  }
  return lines;
}

// "step 12/16  ####----   75 %  ETA 30s"
ScreenLine step_bar(const RunStatus& status, const ScreenLook& look) {
  if (!status.last_step) return ScreenLine(fitting("step -", look.columns));
  const int64_t step = status.last_step->step;
  const int64_t total = status.last_step->total_steps;
  const std::string begins =
      total > 0 ? fmt::format("step {}/{}  ", step, total) : fmt::format("step {}", step);
  const double share =
      total > 0 ? std::clamp(static_cast<double>(step) / static_cast<double>(total), 0.0, 1.0) : 0;
  std::string ends = total > 0 ? fmt::format(" {:>3} %", static_cast<int>(share * 100)) : "";
  if (status.left_s) ends += fmt::format("  ETA {}", seconds_text(*status.left_s));
  constexpr size_t kLeastBar = 4;
  constexpr size_t kMostBar = 60;
  const size_t taken = columns_of(begins) + columns_of(ends);
  if (total <= 0 || taken + kLeastBar > look.columns) {
    return ScreenLine(without_end(begins + ends, look.columns, look));
  }
  ScreenLine line(begins);
  add_bar(line, share, std::min(kMostBar, look.columns - taken), look);
  line.add(ends);
  return line;
}

// A history is the curve of a metric; `text` writes its numbers.
struct History {
  const char* metric;
  std::string_view name;
  std::string (*text)(double);
};
constexpr std::array kHistories{
    History{"loss", "loss   ", [](double value) { return fmt::format("{:.4g}", value); }},
    History{"tokens_per_s", "tok/s  ", format_rate}};

std::vector<PlotPoint> curve_of(const MetricCurves& recent, const History& history) {
  const auto found = recent.find(history.metric);
  return found == recent.end() ? std::vector<PlotPoint>{} : found->second;
}

// "loss   ▇▆▄▃▂▁▁  2.103 to 3.871, steps 180-240"
ScreenLine history_line(const History& history, const MetricCurves& recent,
                        const ScreenLook& look) {
  constexpr size_t kRange = 16;  // of the words behind, the same for all so that lines end as one
  const std::vector<PlotPoint> curve = curve_of(recent, history);
  const std::string newest = curve.empty() ? "" : fmt::format("{:.10g}", curve.back().x);
  const bool with_steps = look.columns >= 80;
  const size_t words = with_steps ? kRange + 9 + 2 * newest.size() : kRange;
  const bool only_heights = look.columns < history.name.size() + 2 + words + 8;
  const size_t taken = only_heights ? history.name.size() : history.name.size() + 2 + words;
  const Sparkline shown = sparkline(curve, look.columns - std::min(look.columns, taken), look);
  ScreenLine line(fitting(history.name, look.columns));
  if (shown.heights.empty()) {
    if (line.columns() < look.columns) line.add("-");
    return line;
  }
  line.add(shown.heights, Ink::kBar);
  if (only_heights) return line;
  std::string said = fmt::format("{} to {}", history.text(shown.low), history.text(shown.high));
  if (with_steps) said += fmt::format(", steps {:.10g}-{}", shown.first_step, newest);
  line.add("  ");
  line.add(without_end(said, look.columns - line.columns(), look));
  return line;
}

std::vector<ScreenLine> words_of(const std::string& text, Ink ink, const ScreenLook& look) {
  constexpr size_t kMostLines = 4;
  std::vector<ScreenLine> lines;
  for (const std::string& line : wrapped(text, kMostLines, look)) lines.emplace_back(line, ink);
  return lines;
}

std::vector<Section> sections_of(const RunStatus& status, const MetricCurves& recent,
                                 const ScreenLook& look) {
  std::vector<Section> out;
  out.push_back({5, {title_line(status, look)}});
  out.push_back({9, headline(status, look)});
  if (!status.reason.empty()) {
    const bool failed = ink_of(status.phase) == Ink::kBad;
    out.push_back(
        {6, words_of("reason: " + status.reason, failed ? Ink::kBad : Ink::kPlain, look)});
  }
  out.push_back({8, {step_bar(status, look)}});
  if (status.last_step)
    out.push_back({4, {ScreenLine(figures_within(*status.last_step, look.columns))}});
  int importance = 3;
  for (const History& history : kHistories) {
    out.push_back({importance--, {history_line(history, recent, look)}});
  }
  if (status.last_commit) {
    const std::string saved = fmt::format("checkpoint {}", status.last_commit->tag());
    out.push_back({1, {ScreenLine(without_end(saved, look.columns, look))}});
  }
  if (!status.ranks.empty()) out.push_back({0, {ScreenLine()}});
  if (const std::string verdict = verdict_text(status); !verdict.empty()) {
    out.push_back({7, words_of("waiting: " + verdict, Ink::kWarning, look), Place::kBelowTable});
  }
  return out;
}

size_t rows_of(const std::vector<Section>& sections) {
  size_t rows = 0;
  for (const Section& section : sections) rows += section.lines.size();
  return rows;
}

// Leaves out the least important sections until there are no more rows than that.
void shrink(std::vector<Section>& sections, size_t rows) {
  while (rows_of(sections) > rows) {
    const auto least = std::ranges::min_element(sections, {}, &Section::importance);
    if (least == sections.end() || least->importance >= kNeverLeftOut) return;
    sections.erase(least);
  }
}

}  // namespace

std::vector<ScreenLine> top_screen(const RunStatus& status, const MetricCurves& recent,
                                   const ScreenLook& look) {
  constexpr size_t kLeastTable = 4;  // rows: a heading, two ranks, and how many are not shown
  const size_t table = status.ranks.empty() ? 0 : status.ranks.size() + 1;
  std::vector<Section> sections = sections_of(status, recent, look);
  shrink(sections, look.rows - std::min({look.rows, table, kLeastTable}));
  std::vector<ScreenLine> out;
  const auto take = [&](Place place) {
    for (const Section& section : sections) {
      if (section.place != place) continue;
      out.insert(out.end(), section.lines.begin(), section.lines.end());
    }
  };
  take(Place::kAboveTable);
  const size_t left = look.rows - std::min(look.rows, rows_of(sections));
  for (const ScreenLine& row : rank_table(status, left, look)) out.push_back(row);
  take(Place::kBelowTable);
  if (out.size() > look.rows) out.resize(look.rows);
  return out;
}

}  // namespace ds
