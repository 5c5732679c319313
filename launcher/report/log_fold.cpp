#include "launcher/report/log_fold.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

constexpr size_t kTimeWidth = 12;  // "HH:MM:SS.mmm"

bool begins_with_time(std::string_view line) {
  constexpr std::string_view kPattern = "00:00:00.000 ";
  if (line.size() < kPattern.size()) return false;
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(line[i])) != 0;
    if (kPattern[i] == '0' ? !digit : line[i] != kPattern[i]) return false;
  }
  return true;
}

struct FoldedLine {
  std::string at;  // of it, or of the last line before it that had a time
  bool timed = false;
  std::string text;  // behind the time
  std::vector<int> ranks;
};

std::vector<FoldedLine> folded_lines(const std::map<int, std::vector<std::string>>& lines) {
  std::vector<FoldedLine> folded;
  std::map<std::pair<std::string, int>, size_t> places;  // (text, which one of it) -> index
  for (const auto& [rank, log] : lines) {
    std::string at;
    std::map<std::string, int> said;
    for (const std::string& line : log) {
      const bool timed = begins_with_time(line);
      if (timed) at = line.substr(0, kTimeWidth);
      const std::string text = timed ? line.substr(kTimeWidth) : line;
      const auto [place, fresh] = places.try_emplace({text, said[text]++}, folded.size());
      if (fresh) folded.push_back({at, timed, text, {}});
      folded[place->second].ranks.push_back(rank);
    }
  }
  std::ranges::stable_sort(folded, {}, &FoldedLine::at);
  return folded;
}

}  // namespace

std::string rank_ranges(const std::vector<int>& ranks) {
  std::string out;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += out.empty() ? "" : ",";
    out += last == first ? fmt::format("{}", ranks[first])
                         : fmt::format("{}-{}", ranks[first], ranks[last]);
    first = last + 1;
  }
  return out;
}

std::string fold_logs(const std::map<int, std::vector<std::string>>& lines) {
  std::string out;
  for (const FoldedLine& line : folded_lines(lines)) {
    out +=
        fmt::format("[{}] {}{}\n", rank_ranges(line.ranks), line.timed ? line.at : "", line.text);
  }
  return out;
}

std::string fold_logs_as_json(const std::map<int, std::vector<std::string>>& lines) {
  std::string out;
  for (const FoldedLine& line : folded_lines(lines)) {
    out += JsonObject()
               .raw("ranks", fmt::format("[{}]", fmt::join(line.ranks, ", ")))
               .raw("time", line.timed ? json_string(line.at) : "null")
               .text("text",
                     line.timed ? line.text.substr(1) : line.text)  // a space is behind the time
               .str() +
           "\n";
  }
  return out;
}

}  // namespace ds
