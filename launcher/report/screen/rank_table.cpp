#include "launcher/report/screen/rank_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "cli/text/terminal_text.h"
#include "core/values/index.h"
#include "launcher/report/gpu_text.h"
#include "launcher/report/progress.h"
#include "launcher/report/screen/bars.h"
#include "launcher/report/status_text.h"

namespace ds {
namespace {

constexpr size_t kGap = 2;  // between columns

struct Cell {
  std::string text;
  std::optional<double> share{};  // of a bar
  Ink ink = Ink::kPlain;
};

enum class Side { kLeft, kRight };

// The room that columns leave is the last one's.
struct Column {
  std::string title;
  int importance;  // of two that do not both fit, the larger stays
  std::vector<Cell> cells{};
  Side side = Side::kLeft;
  bool spare = false;  // stays only where all others have the width that suits them
  size_t least = 0;    // widths
  size_t suits = 0;
  size_t most = 0;
  size_t label = 0;  // beside the bar; 0: there is no bar
  size_t width = 0;
};

using CellOf = std::function<Cell(const RankStatus&)>;

Column column_of(const RunStatus& status, Column column, const CellOf& cell) {
  size_t text = 0;
  bool bars = false;
  for (const RankStatus& rank : status.ranks) {
    column.cells.push_back(cell(rank));
    text = std::max(text, columns_of(one_line(column.cells.back().text)));
    bars = bars || column.cells.back().share;
  }
  const size_t title = columns_of(column.title);
  if (bars) {
    column.label = text;
    column.least = std::max(title, text + 5);
    column.suits = std::max(title, text + 11);
    column.most = std::max(title, text + 25);
  } else {
    column.least = column.suits = column.most = std::max(title, text);
  }
  return column;
}

std::string known(const std::string& text) { return text.empty() ? "-" : text; }

Cell steps_cell(const RunStatus& status, const RankStatus& rank) {
  const int64_t total = status.last_step ? status.last_step->total_steps : 0;
  if (!rank.progress.knows_step()) return {"-"};
  if (total <= 0) return {std::to_string(rank.progress.step)};
  const std::string all = std::to_string(total);
  return {fmt::format("{:>{}}/{}", rank.progress.step, all.size(), all),
          static_cast<double>(rank.progress.step) / static_cast<double>(total)};
}

Cell memory_cell(const RankStatus& rank) {
  if (!rank.gpu || !rank.gpu->figures.memory_used) return {"-"};
  const int64_t used = *rank.gpu->figures.memory_used;
  const int64_t total = rank.gpu->figures.memory_total.value_or(0);
  Cell cell{format_bytes(used)};
  if (total > 0) cell.share = static_cast<double>(used) / static_cast<double>(total);
  return cell;
}

Cell busy_cell(const RankStatus& rank) {
  if (!rank.gpu || !rank.gpu->figures.utilization) return {"-"};
  const int64_t percent = *rank.gpu->figures.utilization;
  return {fmt::format("{:>3} %", percent), static_cast<double>(percent) / 100};
}

Cell heat_cell(const RankStatus& rank) {
  if (!rank.gpu || !rank.gpu->figures.temperature) return {"-"};
  return {fmt::format("{} C", *rank.gpu->figures.temperature)};
}

std::string gpu_trouble(const RankStatus& rank) {
  if (!rank.gpu) return "";
  if (!rank.gpu->problem.empty()) return rank.gpu->problem;
  return rank.gpu->figures.last_xid ? xid_text(*rank.gpu->figures.last_xid) : "";
}

bool is_well(const RankStatus& rank) {
  return rank.state == "alive" && !is_silent(rank) && gpu_trouble(rank).empty();
}

// The column of steps is one of the first to be left out where there are GPUs.
Cell doing_cell(const RankStatus& rank) {
  const std::string trouble = gpu_trouble(rank);
  Cell cell{(trouble.empty() ? "" : trouble + "; ") +
            (rank.gpu ? place_text(rank) : doing_text(rank))};
  if (!is_well(rank)) cell.ink = rank.state == "absent" ? Ink::kWarning : Ink::kBad;
  return cell;
}

// They stand in the order in which they are shown.
std::vector<Column> all_columns(const RunStatus& status) {
  const auto of = [&status](Column column, const CellOf& cell) {
    return column_of(status, std::move(column), cell);
  };
  const bool gpus =
      std::ranges::any_of(status.ranks, [](const RankStatus& r) { return r.gpu.has_value(); });
  std::vector<Column> out;
  out.push_back(of({.title = "rank", .importance = 9, .side = Side::kRight},
                   [](const RankStatus& r) { return Cell{std::to_string(r.rank)}; }));
  out.push_back(of({.title = "host", .importance = 4},
                   [](const RankStatus& r) { return Cell{known(r.host)}; }));
  out.back().least = std::min<size_t>(out.back().most, 8);
  out.back().suits = std::min<size_t>(out.back().most, 20);
  out.push_back(
      of({.title = "pid", .importance = 1, .side = Side::kRight, .spare = true},
         [](const RankStatus& r) { return Cell{r.pid > 0 ? std::to_string(r.pid) : "-"}; }));
  out.push_back(of({.title = "heard", .importance = 2, .side = Side::kRight, .spare = true},
                   [](const RankStatus& r) {
                     return Cell{r.silent_s ? fmt::format("{:>5.1f}s", *r.silent_s) : "-"};
                   }));
  out.push_back(of({.title = "steps", .importance = gpus ? 3 : 7, .spare = gpus},
                   [&status](const RankStatus& r) { return steps_cell(status, r); }));
  if (gpus) {
    out.push_back(of({.title = "GPU memory", .importance = 6}, memory_cell));
    out.push_back(of({.title = "GPU busy", .importance = 5}, busy_cell));
    out.push_back(
        of({.title = "heat", .importance = 0, .side = Side::kRight, .spare = true}, heat_cell));
  }
  out.push_back(of({.title = "doing", .importance = 8}, doing_cell));
  out.back().least = 12;
  out.back().suits = out.back().most = 44;  // whatever stands there now, so that columns stay
  return out;
}

size_t sum_of(const std::vector<const Column*>& columns, size_t Column::*width) {
  size_t sum = 0;
  for (const Column* column : columns) sum += column->*width + kGap;
  return sum - std::min(sum, kGap);
}

std::vector<Column> fitted(std::vector<Column> all, size_t width) {
  std::vector<Column*> by_importance;
  for (Column& column : all) by_importance.push_back(&column);
  std::ranges::sort(by_importance, std::greater{}, &Column::importance);
  std::vector<const Column*> chosen;
  for (Column* const column : by_importance) {
    chosen.push_back(column);
    const size_t wide = sum_of(chosen, column->spare ? &Column::suits : &Column::least);
    if (wide > width && chosen.size() > 1) chosen.pop_back();
  }
  for (Column* column : by_importance) column->width = column->least;
  const size_t taken = sum_of(chosen, &Column::least);
  size_t left = width - std::min(width, taken);
  for (size_t Column::*const goal : {&Column::suits, &Column::most}) {
    for (Column* const column : by_importance) {
      if (std::ranges::find(chosen, column) == chosen.end()) continue;
      const size_t more = std::min(left, column->*goal - column->width);
      column->width += more;
      left -= more;
    }
  }
  std::vector<Column> out;
  for (Column& column : all) {
    if (std::ranges::find(chosen, &column) != chosen.end()) out.push_back(std::move(column));
  }
  return out;
}

void add_cell(ScreenLine& line, const Column& column, const Cell& cell, size_t width,
              const ScreenLook& look) {
  if (cell.share) {
    add_bar(line, *cell.share, width - column.label - 1, look);
    line.add(fmt::format(" {:>{}}", cell.text, column.label));
    return;
  }
  const std::string text = without_end(cell.text, width, look);
  if (column.side == Side::kRight) line.pad_to(line.columns() + width - columns_of(text));
  line.add(text, cell.ink);
}

template <class CellOfColumn>
ScreenLine row_of(const std::vector<Column>& columns, const ScreenLook& look,
                  const CellOfColumn& cell_of) {
  ScreenLine line;
  size_t begins = 0;
  for (const Column& column : columns) {
    line.pad_to(begins);
    const bool last = &column == &columns.back();
    const size_t room = look.columns - std::min(look.columns, begins);
    const bool grows = last && column.label == 0 && column.side == Side::kLeft;
    add_cell(line, column, cell_of(column), grows ? room : std::min(room, column.width), look);
    begins += column.width + kGap;
  }
  return line;
}

// Returns which ranks are shown, in their order: those that are not well are chosen first.
std::vector<size_t> chosen_ranks(const RunStatus& status, size_t most) {
  std::vector<size_t> out;
  for (const bool well : {false, true}) {
    for (size_t i = 0; i < status.ranks.size() && out.size() < most; ++i) {
      if (is_well(status.ranks[i]) == well) out.push_back(i);
    }
  }
  std::ranges::sort(out);
  return out;
}

std::string not_shown_text(const RunStatus& status, const std::vector<size_t>& shown) {
  std::map<std::string, size_t> states;
  for (const RankStatus& rank : status.ranks) ++states[rank.state];
  for (const size_t i : shown) --states[status.ranks[i].state];
  std::vector<std::string> counts;
  for (const auto& [state, count] : states) {
    if (count > 0) counts.push_back(fmt::format("{} {}", count, state));
  }
  const size_t hidden = status.ranks.size() - shown.size();
  return fmt::format("and {} not shown: {}", format_count(narrow<int64_t>(hidden), "rank"),
                     fmt::join(counts, ", "));
}

}  // namespace

std::vector<ScreenLine> rank_table(const RunStatus& status, size_t rows, const ScreenLook& look) {
  std::vector<ScreenLine> out;
  if (rows == 0 || status.ranks.empty()) return out;
  const std::vector<Column> columns = fitted(all_columns(status), look.columns);
  out.push_back(row_of(columns, look, [](const Column& column) {
    return Cell{.text = column.title, .ink = Ink::kBold};
  }));
  const bool all = status.ranks.size() + 1 <= rows;
  const std::vector<size_t> shown =
      chosen_ranks(status, all ? status.ranks.size() : rows - std::min<size_t>(rows, 2));
  for (const size_t i : shown) {
    out.push_back(row_of(columns, look, [i](const Column& column) { return column.cells[i]; }));
  }
  if (!all && rows > 1) {
    out.emplace_back(without_end(not_shown_text(status, shown), look.columns, look));
  }
  return out;
}

}  // namespace ds
