#include "config/reader/nearest.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "core/text/letters.h"

namespace ds {

namespace {

constexpr size_t kLongest = 100;  // no key is near to longer names; keeps hostile input cheap
constexpr size_t kSlip = 2;

// Letters put in, left out, replaced, and neighbours exchanged, which is one slip of the fingers
// (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  std::vector<size_t> above(row.size());
  std::vector<size_t> above_that(row.size());
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(above_that, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], above_that[j - 2] + 1);
    }
  }
  return row[b.size()];
}

struct Near {
  std::string name;
  size_t distance = SIZE_MAX;
};

Near nearest_of(std::string_view name, const std::vector<std::string>& known) {
  Near near;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < near.distance) near = {candidate, distance};
  }
  return near;
}

std::set<std::string, std::less<>> words_in(std::string_view name) {
  std::set<std::string, std::less<>> words;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('_', begin), name.size());
    if (end > begin) words.emplace(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// The shortest of the names that have all words of this one.
std::string with_all_words(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kShortest = 4;  // shorter ones stand in too many names
  if (name.size() < kShortest) return "";
  const auto words = words_in(name);
  std::string best;
  for (const std::string& candidate : known) {
    const auto theirs = words_in(candidate);
    const bool has_all = std::includes(theirs.begin(), theirs.end(), words.begin(), words.end());
    if (has_all && (best.empty() || candidate.size() < best.size())) best = candidate;
  }
  return best;
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongest) return "";
  const Near near = nearest_of(name, known);
  if (near.distance <= std::min(kSlip, (name.size() + 1) / 2)) return near.name;
  const std::string longer = with_all_words(name, known);
  if (!longer.empty()) return longer;
  return near.distance <= name.size() / 3 ? near.name : "";
}

std::string slip_of_key(std::string_view key, const std::vector<std::string>& known) {
  constexpr size_t kMostMissing = 4, kShortest = 6, kLong = 20;
  const size_t most = std::min<size_t>(key.size() < kLong ? 3 : 4, key.size() / 4);
  if (key.size() > kLongest) return "";
  const std::string written = lower_case(key);
  Near near;
  for (const std::string& candidate : known) {
    const size_t longer = std::max(key.size(), candidate.size());
    const size_t missing = longer - key.size();
    if (key.size() >= kShortest && missing <= std::min(kMostMissing, key.size() / 3) &&
        candidate.starts_with(written)) {
      return candidate;
    }
    if (longer - std::min(key.size(), candidate.size()) > most) continue;
    const size_t distance = edit_distance(written, lower_case(candidate));
    if (distance <= most && distance < near.distance) near = {candidate, distance};
  }
  return near.name;
}

std::string misspelt_name(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongest) return "";
  const Near near = nearest_of(name, known);
  return near.distance <= name.size() / 4 ? near.name : "";
}

}  // namespace ds
